/* An application for bench/gateways.py: one thread that waits with epoll(7). Listens on 127.0.0.1; ends when it is killed.
 *
 *     application PORT
 *
 * GET /slow     500 bytes, 200 ms after the request
 * GET /bytes/N  N bytes, as fast as they are taken
 * POST          reads the content (Content-Length), and answers how many bytes that were
 * anything else 500 bytes at once */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 512, HEAD_BYTES = 16384, CONNECTIONS = 65536, SMALL = 500, SLOW_MS = 200, PIECE = 1 << 20 };

struct connection {
    char head[HEAD_BYTES];
    size_t held;
    uint64_t left, taken; /* of the content of a request */
    uint64_t sending;     /* of the content of an answer */
    uint64_t count;       /* tells a connection from a later one of the same number */
};

static struct connection *connections[CONNECTIONS];
/* All wait as long, so they are due in the order in which they came. */
static struct { uint64_t due, count; int socket; } waiting[CONNECTIONS];
static size_t first_waiting, end_waiting;
static uint64_t count;
static char piece[PIECE], discarded[PIECE];
static int epoll;

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

static void watch(int socket, uint32_t events, int how) {
    struct epoll_event event = {.events = events, .data.fd = socket};
    epoll_ctl(epoll, how, socket, &event);
}

static void end(int socket) {
    free(connections[socket]);
    connections[socket] = NULL;
    close(socket);
}

/* Sends what the socket takes, up to a few megabytes at once: others have their turn. False if the connection has ended. */
static int go_on(int socket) {
    struct connection *connection = connections[socket];
    for (int turn = 0; connection->sending && turn < 4; turn++) {
        ssize_t sent = send(socket, piece, connection->sending < PIECE ? connection->sending : PIECE, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN) return 0;
        if (sent < 0) break;
        connection->sending -= sent;
    }
    watch(socket, connection->sending ? EPOLLOUT : EPOLLIN, EPOLL_CTL_MOD);
    return 1;
}

static int answer(int socket, uint64_t bytes) {
    char head[256];
    int length = sprintf(head, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %llu\r\n\r\n", (unsigned long long)bytes);
    if (bytes == SMALL) {
        char small[256 + SMALL];
        memcpy(small, head, length);
        memset(small + length, 'x', SMALL);
        return send(socket, small, length + SMALL, MSG_NOSIGNAL | MSG_DONTWAIT) == length + SMALL;
    }
    connections[socket]->sending = bytes;
    return send(socket, head, length, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE) == length && go_on(socket);
}

static int answer_taken(int socket) {
    char text[256], number[32];
    int length = sprintf(number, "%llu\n", (unsigned long long)connections[socket]->taken);
    int bytes = sprintf(text, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", length, number);
    return send(socket, text, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == bytes;
}

/* Takes what has come. False if the connection has ended. */
static int take(int socket) {
    struct connection *connection = connections[socket];
    if (connection->left) {
        ssize_t bytes = recv(socket, discarded, connection->left < PIECE ? connection->left : PIECE, MSG_DONTWAIT);
        if (bytes <= 0) return 0;
        connection->taken += bytes;
        connection->left -= bytes;
        return connection->left || answer_taken(socket);
    }
    ssize_t bytes = recv(socket, connection->head + connection->held, HEAD_BYTES - 1 - connection->held, MSG_DONTWAIT);
    if (bytes <= 0) return 0;
    connection->held += bytes;
    connection->head[connection->held] = 0;
    char *head_end = strstr(connection->head, "\r\n\r\n");
    if (!head_end) return connection->held < HEAD_BYTES - 1;
    size_t content = connection->held - (head_end + 4 - connection->head);
    connection->held = 0;
    if (!strncmp(connection->head, "POST ", 5)) {
        char *length = strcasestr(connection->head, "\r\nContent-Length:");
        if (!length || length > head_end) return 0;
        uint64_t all = strtoull(length + 17, NULL, 10);
        connection->taken = content;
        connection->left = all - content;
        return connection->left || answer_taken(socket);
    }
    if (!strncmp(connection->head, "GET /slow", 9)) {
        waiting[end_waiting % CONNECTIONS].due = now_ms() + SLOW_MS;
        waiting[end_waiting % CONNECTIONS].count = connection->count;
        waiting[end_waiting++ % CONNECTIONS].socket = socket;
        return 1;
    }
    if (!strncmp(connection->head, "GET /bytes/", 11)) return answer(socket, strtoull(connection->head + 11, NULL, 10));
    return answer(socket, SMALL);
}

static int answer_those_that_are_due(void) {
    for (; first_waiting < end_waiting; first_waiting++) {
        size_t at = first_waiting % CONNECTIONS;
        uint64_t now = now_ms();
        if (waiting[at].due > now) return waiting[at].due - now;
        int socket = waiting[at].socket;
        if (connections[socket] && connections[socket]->count == waiting[at].count && !answer(socket, SMALL)) end(socket);
    }
    return -1;
}

int main(int words, char **word) {
    if (words != 2) return fprintf(stderr, "usage: application PORT\n"), 2;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(word[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) return perror("application"), 1;
    epoll = epoll_create1(0);
    memset(piece, 'x', sizeof piece);
    watch(listener, EPOLLIN, EPOLL_CTL_ADD);
    for (;;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, answer_those_that_are_due());
        for (int at = 0; at < ready; at++) {
            int socket = events[at].data.fd;
            if (socket != listener) {
                int goes_on = events[at].events & EPOLLOUT ? go_on(socket) : take(socket);
                if (!goes_on || events[at].events & EPOLLERR) end(socket);
                continue;
            }
            for (int accepted; (accepted = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
                if (accepted >= CONNECTIONS) {
                    close(accepted);
                    continue;
                }
                setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                connections[accepted] = calloc(1, sizeof(struct connection));
                connections[accepted]->count = ++count;
                watch(accepted, EPOLLIN, EPOLL_CTL_ADD);
            }
        }
    }
}
