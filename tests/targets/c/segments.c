/* Runs segments one after another: reads what each needs from stdin and writes what it computed to stdout.

   Everything is 64-bit integers and arrays of bytes with their length in front. The program's argument is the number of
   the first segment; a segment that ends the program leaves the output of those before it. */
#include <stdio.h>

#include "standalone.c"

typedef struct {
    ig_driver driver;
    const ig_kernel *kernel;
} segment;

extern const segment segments[];
extern const int64_t segment_count;

static void stop(const char *why) {
    fprintf(stderr, "%s\n", why);
    exit(2);
}

static void read_bytes(void *memory, int64_t bytes) {
    if (bytes && fread(memory, 1, (size_t)bytes, stdin) != (size_t)bytes)
        stop("the input is too short");
}

static int64_t read_integer(void) {
    int64_t number;
    read_bytes(&number, sizeof number);
    return number;
}

static void *memory_for(int64_t bytes) {
    void *memory = ig_alone_aligned(bytes);
    if (!memory)
        stop("out of memory");
    memset(memory, 0xA5, (size_t)bytes);
    return memory;
}

static void *read_array(void) {
    int64_t bytes = read_integer();
    void *memory = memory_for(bytes);
    read_bytes(memory, bytes);
    return memory;
}

static void **read_arrays(int64_t count) {
    void **array = memory_for(count * (int64_t)sizeof *array);
    for (int64_t i = 0; i < count; i++)
        array[i] = read_array();
    return array;
}

static void free_arrays(void **array, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        free(array[i]);
    free(array);
}

static void write_integer(int64_t number) {
    fwrite(&number, sizeof number, 1, stdout);
}

/* A late output: its shape, then its elements. */
static void write_result(const ig_result *result) {
    int64_t bytes = result->item_bytes;
    write_integer(result->rank);
    for (int32_t i = 0; i < result->rank; i++) {
        write_integer(result->dim[i]);
        bytes *= result->dim[i];
    }
    fwrite(result->memory, 1, (size_t)bytes, stdout);
}

static void run_segment(const segment *s) {
    int64_t inputs = read_integer(), constants = read_integer(), outputs = read_integer();
    int64_t arena_bytes = read_integer();
    int64_t *dim = read_array(), *offset = read_array();
    int64_t *output_bytes = read_array(), *item_bytes = read_array(); /* bytes below 0: late */
    void **input = read_arrays(inputs), **constant = read_arrays(constants);
    void **output = memory_for(outputs * (int64_t)sizeof *output);
    ig_result *result = memory_for(outputs * (int64_t)sizeof *result);
    for (int64_t i = 0; i < outputs; i++) {
        output[i] = output_bytes[i] < 0 ? NULL : memory_for(output_bytes[i]);
        result[i] = (ig_result){.item_bytes = item_bytes[i]};
    }
    char *arena = memory_for(arena_bytes);
    ig_call call = {.input = input, .output = output, .constant = constant, .arena = arena,
                    .offset = offset, .dim = dim, .kernel = s->kernel};
    int32_t status = ig_run_alone(s->driver, call, result);
    write_integer(status);
    for (int64_t i = 0; i < outputs; i++) {
        if (status == 0 && output[i])
            fwrite(output[i], 1, (size_t)output_bytes[i], stdout);
        else if (status == 0)
            write_result(&result[i]);
        free(result[i].dim);
        free(result[i].memory);
    }
    fflush(stdout);
    free_arrays(input, inputs), free_arrays(constant, constants), free_arrays(output, outputs);
    free(dim), free(offset), free(output_bytes), free(item_bytes), free(result), free(arena);
}

int main(int count, char **argument) {
    for (int64_t i = count > 1 ? atoll(argument[1]) : 0; i < segment_count; i++)
        run_segment(&segments[i]);
    return 0;
}
