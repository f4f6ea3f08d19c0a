/* Mapped files that lose bytes: what is read of them is then zero, and known to be lost.

   A read behind the end of a file that was cut short, or one that the disk fails, raises SIGBUS, which ends the process.
   The handler looks whether the address lies in a file that was registered here. If so it puts empty memory in its place
   from there to the file's end, notes the loss, and lets the read go on; whoever reads such a file asks afterwards
   whether it is whole. Every other SIGBUS goes to the handler that was there before. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct guarded_file {
    _Atomic uintptr_t first, last; /* its addresses; both 0 where nobody uses the entry */
    _Atomic int is_lost;
    struct guarded_file *next;
} guarded_file;

static guarded_file *_Atomic guarded_files; /* entries are used again and never freed, so the handler needs no lock */
static atomic_flag is_changing = ATOMIC_FLAG_INIT;
static atomic_flag is_passed_on = ATOMIC_FLAG_INIT;
static struct sigaction handler_before;

static int replace_pages(guarded_file *file, uintptr_t address) {
    uintptr_t page = address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    int kept = errno;
    void *zeros = mmap((void *)page, file->last + 1 - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    errno = kept;
    atomic_store(&file->is_lost, 1);
    return zeros != MAP_FAILED;
}

static int is_repaired(const siginfo_t *about) {
    uintptr_t address = (uintptr_t)about->si_addr;
    if (about->si_code <= 0) /* sent by a program */
        return 0;
    for (guarded_file *file = atomic_load(&guarded_files); file; file = file->next)
        if (address >= atomic_load(&file->first) && address <= atomic_load(&file->last) && file->first)
            return replace_pages(file, address);
    return 0;
}

/* To the handler before; the second time to the system, as two handlers may name each other. */
static void pass_on(int number, siginfo_t *about, void *context) {
    int is_function = handler_before.sa_handler != SIG_DFL && handler_before.sa_handler != SIG_IGN;
    if (!is_function || atomic_flag_test_and_set(&is_passed_on)) {
        struct sigaction plain = {.sa_handler = SIG_DFL};
        sigaction(number, &plain, NULL);
        if (about->si_code <= 0)
            raise(number);
        return; /* a read that fails is tried again, and fails again */
    }
    if (handler_before.sa_flags & SA_SIGINFO)
        handler_before.sa_sigaction(number, about, context);
    else
        handler_before.sa_handler(number);
    atomic_flag_clear(&is_passed_on);
}

static void on_bus_error(int number, siginfo_t *about, void *context) {
    if (!is_repaired(about))
        pass_on(number, about, context);
}

static int install_handler(void) {
    struct sigaction own = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK}, now;
    if (sigaction(SIGBUS, NULL, &now))
        return -1;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error)
        return 0;
    handler_before = now;
    return sigaction(SIGBUS, &own, NULL);
}

static guarded_file *free_entry(void) {
    for (guarded_file *file = atomic_load(&guarded_files); file; file = file->next)
        if (!atomic_load(&file->first))
            return file;
    guarded_file *made = calloc(1, sizeof *made);
    if (made) {
        made->next = atomic_load(&guarded_files);
        atomic_store(&guarded_files, made);
    }
    return made;
}

/* The entry of a mapped file; NULL where it cannot be guarded. */
static guarded_file *guard_pages(void *memory, int64_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    while (atomic_flag_test_and_set(&is_changing))
        ;
    guarded_file *file = install_handler() ? NULL : free_entry();
    if (file) {
        atomic_store(&file->is_lost, 0);
        atomic_store(&file->last, (((uintptr_t)memory + (uintptr_t)bytes + page - 1) & ~(page - 1)) - 1);
        atomic_store(&file->first, (uintptr_t)memory);
    }
    atomic_flag_clear(&is_changing);
    return file;
}

static int are_pages_lost(guarded_file *file) {
    return atomic_load(&file->is_lost);
}

static void release_pages(guarded_file *file) {
    atomic_store(&file->first, 0);
}
