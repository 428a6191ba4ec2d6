/*
 * Filters of the Lamna web server as WebAssembly modules in C, of the world in lamna_filter.wit: see docs/services.md.
 *
 *     clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -o filter.wasm filter.c
 *
 * A file that includes this one defines the four functions that are declared below. What the server gives to a call is in memory that the next call
 * uses again. What a call gives has to stay until the next one.
 */
#ifndef LAMNA_FILTER_WASM_H
#define LAMNA_FILTER_WASM_H

#include <stdint.h>

#define LAMNA_EXPORT(name) __attribute__((export_name(name), used))

/* A text or bytes, without a zero at the end. */
struct lamna_bytes {
    const uint8_t *at;
    uint32_t count;
};

struct lamna_parameter {
    struct lamna_bytes name, value;
};

/* What a call gives. Of init, take and finish `what` is LAMNA_GIVEN or LAMNA_ERROR; of begin LAMNA_NONE or LAMNA_MEDIA_TYPE. */
struct lamna_result {
    uint32_t what;
    struct lamna_bytes bytes;
};

enum { LAMNA_GIVEN = 0, LAMNA_ERROR = 1, LAMNA_NONE = 0, LAMNA_MEDIA_TYPE = 1 };

LAMNA_EXPORT("init") const struct lamna_result *init(const struct lamna_parameter *parameters, uint32_t count);
LAMNA_EXPORT("begin") const struct lamna_result *begin(const uint8_t *media_type, uint32_t count);
LAMNA_EXPORT("take") const struct lamna_result *take(const uint8_t *piece, uint32_t count);
LAMNA_EXPORT("finish") const struct lamna_result *finish(void);

/* Room for what the server gives to one call: parameters, a media type, or a piece. */
static uint8_t lamna_given[64 << 10] __attribute__((aligned(8)));
static uint32_t lamna_given_count;

/* Each function calls it when it has read what it was given. */
static inline void lamna_done(void)
{
    lamna_given_count = 0;
}

LAMNA_EXPORT("cabi_realloc") void *lamna_realloc(void *old, uint32_t old_count, uint32_t align, uint32_t count);

void *lamna_realloc(void *old, uint32_t old_count, uint32_t align, uint32_t count)
{
    uint32_t at = (lamna_given_count + align - 1) / align * align;

    if (old_count != 0 || old != 0 || at > sizeof lamna_given || count > sizeof lamna_given - at)
        __builtin_trap();
    lamna_given_count = at + count;
    return lamna_given + at;
}

#endif
