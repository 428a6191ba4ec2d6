/* The floor for an event-driven server of one thread: waits with epoll(7), answers whatever arrives with the same bytes,
 * and parses nothing. Measures what the kernel's part of a small cached response costs. Not a web server.
 *
 *     null_server PORT CONTENT_BYTES
 *
 * Listens on 127.0.0.1. Takes each arrival for one request, so it is good for clients that wait for each answer. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 512, REQUEST_BYTES = 16384 };

static void watch(int poll, int socket) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = socket};
    epoll_ctl(poll, EPOLL_CTL_ADD, socket, &event);
}

static int listen_on(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) {
        perror("null_server");
        exit(1);
    }
    return listener;
}

int main(int count, char **words) {
    if (count != 3) return fprintf(stderr, "usage: null_server PORT CONTENT_BYTES\n"), 2;
    size_t content = strtoul(words[2], NULL, 10);
    char *message = malloc(content + 256);
    size_t head = sprintf(message, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %zu\r\n\r\n", content);
    memset(message + head, 'x', content);

    int listener = listen_on(atoi(words[1])), poll = epoll_create1(0);
    watch(poll, listener);
    static char request[REQUEST_BYTES];
    for (;;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(poll, events, EVENTS, -1);
        for (int at = 0; at < ready; at++) {
            int socket = events[at].data.fd;
            if (socket == listener) {
                int accepted = accept4(listener, NULL, NULL, SOCK_NONBLOCK), yes = 1;
                if (accepted < 0) continue;
                setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                watch(poll, accepted);
                continue;
            }
            ssize_t bytes = recv(socket, request, sizeof request, 0);
            if (bytes <= 0) {
                close(socket);
                continue;
            }
            /* The whole message fits the send buffer of a client that has read the one before. */
            ssize_t sent = send(socket, message, head + content, MSG_NOSIGNAL);
            if (sent < (ssize_t)(head + content) || memmem(request, bytes, "Connection: close", 17)) close(socket);
        }
    }
}
