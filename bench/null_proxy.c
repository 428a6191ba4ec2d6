/* null_proxy: the floor for one event-driven worker that passes requests on.
 *
 *   null_proxy PORT ORIGIN_PORT
 *
 * For each client it keeps one connection to the origin. It waits with epoll (edge-triggered, one registration for each
 * socket), passes on whatever arrives, and does nothing else: two receives, two sends and a share of a wait for each
 * request. It parses nothing and checks nothing. It is no proxy: a connection of the origin belongs to one client, and a
 * message is taken to fit in one receive and one send. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_FD = 1 << 16, MAX_EVENTS = 512 };

static int other[MAX_FD]; /* where what arrives goes */

static void watch(int epoll, int fd) {
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = fd };
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

int main(int argc, char **argv) {
    if (argc != 3) { fprintf(stderr, "usage: null_proxy PORT ORIGIN_PORT\n"); return 2; }
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_in origin = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[2])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (void *)&address, sizeof address) || listen(listener, 4096)) { perror("listen"); return 1; }
    int epoll = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = listener }, events[MAX_EVENTS];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    static char buffer[65536];
    for (;;) {
        int count = epoll_wait(epoll, events, MAX_EVENTS, -1);
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                int client;
                while ((client = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0) {
                    int upstream = socket(AF_INET, SOCK_STREAM, 0);
                    if (upstream < 0 || connect(upstream, (void *)&origin, sizeof origin)) { perror("connect"); return 1; }
                    other[client] = upstream;
                    other[upstream] = client;
                    watch(epoll, client);
                    watch(epoll, upstream);
                }
                continue;
            }
            ssize_t received = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
            if (received > 0 && send(other[fd], buffer, received, MSG_DONTWAIT | MSG_NOSIGNAL) == received) continue;
            if (received <= 0) { close(other[fd]); close(fd); }
        }
    }
}
