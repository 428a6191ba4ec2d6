/*
 * lamna_filter.h: a filter of the Lamna web server as a shared object. Version 1.
 *
 * The object exports one symbol, `lamna_filter`, of the type below. The server reads `abi` first and refuses any other version.
 *
 *     init ─> start ─> take* ─> finish ─> end        one stream: one thread at a time, not always the same one
 *       │       └ any number of streams, in any threads at the same time
 *       └─────────────────────────────────> fini      when nothing uses this service any more
 *
 * The code is trusted: it runs in the server's threads and processes, and what it does wrong, the server does. It starts no threads, forks
 * not, and lets no exception out. It does not wait: other connections may wait for the same thread.
 */
#ifndef LAMNA_FILTER_H
#define LAMNA_FILTER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LAMNA_FILTER_ABI 1

/* What `take` and `finish` return. Anything else: the filter has failed, and its service is suspended. */
#define LAMNA_OK 0
#define LAMNA_CONTENT 1 /* this content is not what the filter takes; the next may be */
#define LAMNA_FAILED 2

/* A parameter of the configuration. Neither text ends with a zero. */
struct lamna_parameter {
    const char *name;
    size_t name_bytes;
    const char *value;
    size_t value_bytes;
};

/* Where a filter writes. Returns zero, or something else when there is no room: then the filter returns LAMNA_FAILED. */
struct lamna_output {
    void *state;
    int (*write)(void *state, const uint8_t *bytes, size_t count);
};

struct lamna_filter {
    uint32_t abi;  /* LAMNA_FILTER_ABI */
    uint32_t size; /* sizeof(struct lamna_filter) */

    /* Begins a service. NULL if it cannot: then a sentence that ends with a zero is in `error`, which has `error_bytes` bytes. */
    void *(*init)(const struct lamna_parameter *parameters, size_t count, char *error, size_t error_bytes);
    /* Ends a service. No stream of it is left. */
    void (*fini)(void *service);

    /*
     * Begins a stream of a media type, which ends with a zero. NULL if the filter has nothing to do with it: then it passes by. Another media type
     * may be written over it, within `media_type_bytes` bytes, zero included.
     */
    void *(*start)(void *service, char *media_type, size_t media_type_bytes);
    /* The next piece. Where pieces end must not matter. Equal inputs must give equal outputs: what is made of files is kept. */
    int (*take)(void *stream, const uint8_t *piece, size_t count, const struct lamna_output *output);
    /* There are no more pieces. */
    int (*finish)(void *stream, const struct lamna_output *output);
    /* Nothing else is done with the stream, whether it was finished or not. */
    void (*end)(void *stream);
};

extern const struct lamna_filter lamna_filter;

#ifdef __cplusplus
}
#endif

#endif
