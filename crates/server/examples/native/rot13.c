/*
 * rot13 as a shared object in C: the example of docs/services.md.
 *
 *     cc -shared -fPIC -O2 -o rot13.so rot13.c -I../..
 */
#include "lamna_filter.h"

#include <string.h>

/* What a letter becomes, and where it is the same for all streams: nothing is kept for one. */
static int service, stream;

static uint8_t turn(uint8_t byte)
{
    if (byte >= 'a' && byte <= 'z')
        return (uint8_t)('a' + (byte - 'a' + 13) % 26);
    if (byte >= 'A' && byte <= 'Z')
        return (uint8_t)('A' + (byte - 'A' + 13) % 26);
    return byte;
}

static void *init(const struct lamna_parameter *parameters, size_t count, char *error, size_t error_bytes)
{
    static const char why[] = "rot13 has no parameters";

    (void)parameters;
    if (count == 0)
        return &service;
    if (error_bytes >= sizeof why)
        memcpy(error, why, sizeof why);
    return NULL;
}

static void fini(void *begun)
{
    (void)begun;
}

static void *start(void *begun, char *media_type, size_t media_type_bytes)
{
    (void)begun;
    (void)media_type_bytes;
    return strncmp(media_type, "text/", 5) == 0 ? &stream : NULL;
}

static int take(void *begun, const uint8_t *piece, size_t count, const struct lamna_output *output)
{
    uint8_t turned[4096];

    (void)begun;
    while (count > 0) {
        size_t part = count < sizeof turned ? count : sizeof turned;

        for (size_t at = 0; at < part; at++)
            turned[at] = turn(piece[at]);
        if (output->write(output->state, turned, part) != 0)
            return LAMNA_FAILED;
        piece += part;
        count -= part;
    }
    return LAMNA_OK;
}

static int finish(void *begun, const struct lamna_output *output)
{
    (void)begun;
    (void)output;
    return LAMNA_OK;
}

static void end(void *begun)
{
    (void)begun;
}

const struct lamna_filter lamna_filter = {
    LAMNA_FILTER_ABI, sizeof(struct lamna_filter), init, fini, start, take, finish, end,
};
