/*
 * rot13 as a WebAssembly module in C: the example of docs/services.md.
 *
 *     clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -I../.. -o rot13.wasm rot13.c
 */
#include "lamna_filter_wasm.h"

static uint8_t output[64 << 10];
static struct lamna_result result;

static const struct lamna_result *give(uint32_t what, const uint8_t *at, uint32_t count)
{
    lamna_done();
    result.what = what;
    result.bytes.at = at;
    result.bytes.count = count;
    return &result;
}

static uint8_t turn(uint8_t byte)
{
    if (byte >= 'a' && byte <= 'z')
        return (uint8_t)('a' + (byte - 'a' + 13) % 26);
    if (byte >= 'A' && byte <= 'Z')
        return (uint8_t)('A' + (byte - 'A' + 13) % 26);
    return byte;
}

const struct lamna_result *init(const struct lamna_parameter *parameters, uint32_t count)
{
    static const uint8_t why[] = "rot13 has no parameters";

    (void)parameters;
    if (count == 0)
        return give(LAMNA_GIVEN, 0, 0);
    return give(LAMNA_ERROR, why, sizeof why - 1);
}

const struct lamna_result *begin(const uint8_t *media_type, uint32_t count)
{
    static const uint8_t text[] = "text/";

    for (uint32_t at = 0; at < sizeof text - 1; at++)
        if (at == count || media_type[at] != text[at])
            return give(LAMNA_NONE, 0, 0);
    for (uint32_t at = 0; at < count; at++)
        output[at] = media_type[at];
    return give(LAMNA_MEDIA_TYPE, output, count);
}

const struct lamna_result *take(const uint8_t *piece, uint32_t count)
{
    for (uint32_t at = 0; at < count; at++)
        output[at] = turn(piece[at]);
    return give(LAMNA_GIVEN, output, count);
}

const struct lamna_result *finish(void)
{
    return give(LAMNA_GIVEN, 0, 0);
}
