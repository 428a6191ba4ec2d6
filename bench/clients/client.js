// As client.go, all at once over HTTP/2.
const [, , base, ca, version, into] = process.argv;
const fs = require("fs"), path = require("path");
const paths = fs.readFileSync(0, "utf8").split("\n").filter(Boolean), cert = fs.readFileSync(ca);
const fail = (why) => { console.error(why); process.exit(1); };
const keep = (name, status, chunks) => status === 200 ? fs.writeFileSync(path.join(into, name), Buffer.concat(chunks)) : fail(`${name}: ${status}`);
if (version === "2") {
  const session = require("http2").connect(base, { ca: cert });
  session.on("error", fail);
  let left = paths.length;
  for (const name of paths) {
    const stream = session.request({ ":path": name }), chunks = [];
    let status;
    stream.on("response", (head) => { status = head[":status"]; }).on("data", (chunk) => chunks.push(chunk)).on("error", fail);
    stream.on("end", () => { keep(name, status, chunks); if (--left === 0) session.close(); });
  }
} else {
  const https = require("https"), agent = new https.Agent({ ca: cert, keepAlive: true, maxSockets: 4 });
  let left = paths.length;
  for (const name of paths) {
    https.get(base + name, { agent }, (answer) => {
      const chunks = [];
      answer.on("data", (chunk) => chunks.push(chunk)).on("end", () => { keep(name, answer.statusCode, chunks); if (--left === 0) agent.destroy(); });
    }).on("error", fail);
  }
}
