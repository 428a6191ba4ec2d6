// A client of Node alone: node client.js ORIGIN PATH STATUS BYTES PATIENCE_MS
//
// Uploads so many bytes to the path over HTTP/2, with their length and without, and has to be answered with the status. Then it asks for /file.txt
// over the same connection. Says what went wrong, and ends with 1.
'use strict';
const http2 = require('node:http2');
const { Readable } = require('node:stream');

const [origin, path, status, bytes, patience] = process.argv.slice(2);
const fail = (words) => {
  console.log(words);
  process.exit(1);
};
setTimeout(() => fail('it took too long'), Number(patience)).unref();

const session = http2.connect(origin, { rejectUnauthorized: false });
session.on('error', (error) => fail(`the connection: ${error}`));
session.on('goaway', (code) => fail(`the server ends the connection: ${code}`));

// As much as is taken, piece by piece: Node gives streams up that hold too much.
function* content(bytes) {
  const piece = Buffer.alloc(65536);
  for (let left = bytes; left > 0; left -= piece.length) yield piece.subarray(0, Math.min(left, piece.length));
}

function ask(fields, bytes) {
  return new Promise((answered) => {
    const stream = session.request(fields);
    let seen;
    stream.on('response', (head) => { seen = head[':status']; });
    stream.on('error', (error) => fail(`${fields[':path']}: ${error}, status ${seen}`));
    stream.on('data', () => {});
    stream.on('end', () => answered(seen));
    Readable.from(content(bytes)).pipe(stream);
  });
}

(async () => {
  for (const length of [{ 'content-length': bytes }, {}]) {
    const put = { ':method': 'PUT', ':path': path, ...length };
    const seen = await ask(put, Number(bytes));
    if (String(seen) !== status) fail(`status ${seen} for ${status}`);
    const next = await ask({ ':path': '/file.txt' }, 0);
    if (next !== 200) fail(`the next is answered with ${next}`);
  }
  process.exit(0);
})();
