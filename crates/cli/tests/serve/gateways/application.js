// An application of Node's own modules: events that a server sends, and a WebSocket that says everything again.
const crypto = require("crypto");
const http = require("http");

const listeners = new Set();

const server = http.createServer((request, response) => {
  if (request.url === "/events") {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-cache" });
    response.write("data: begun\n\n");
    listeners.add(response);
    response.on("close", () => listeners.delete(response));
  } else if (request.url === "/listeners") {
    response.end(`${listeners.size}`);
  } else if (request.url === "/tell" && request.method === "POST") {
    let text = "";
    request.setEncoding("utf8");
    request.on("data", (piece) => (text += piece));
    request.on("end", () => {
      for (const listener of listeners) listener.write(`data: ${text}\n\n`);
      response.end(`${listeners.size}`);
    });
  } else {
    response.writeHead(404).end("nothing is here");
  }
});

server.on("upgrade", (request, socket) => {
  const key = request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  const accept = crypto.createHash("sha1").update(key).digest("base64");
  socket.write(
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
      `Sec-WebSocket-Accept: ${accept}\r\n\r\n`,
  );
  let received = Buffer.alloc(0);
  socket.on("error", () => socket.destroy());
  socket.on("data", (piece) => {
    received = Buffer.concat([received, piece]);
    // Short frames from a client: two bytes, four of the mask, and the content (RFC 6455 5.2).
    while (received.length >= 6 && received.length >= 6 + (received[1] & 127)) {
      const length = received[1] & 127;
      const mask = received.subarray(2, 6);
      const content = Buffer.from(received.subarray(6, 6 + length).map((byte, index) => byte ^ mask[index % 4]));
      const kind = received[0] & 15;
      received = received.subarray(6 + length);
      socket.write(Buffer.concat([Buffer.from([128 | kind, length]), content]));
      if (kind === 8) socket.end();
    }
  });
});

server.listen(process.env.SOCKET ?? process.env.PORT);
