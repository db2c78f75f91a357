// Kinds to whom it matters which descriptors there are, and when a file is closed.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "odd_process.h"

static int open_temporary(void) {
  const int file = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) skip("O_TMPFILE");
  return file;
}

// Relies on the lowest free descriptor being the next one, as all programs that redirect do.
static void lowest_descriptor(void) {
  say_ready();
  while (!is_over()) {
    close(0);
    EXPECT_EQUAL(open("/dev/null", O_RDONLY), 0);
    const int next = dup(0);
    for (int i = 0; i < 200; ++i) {
      close(next);
      EXPECT_EQUAL(dup(0), next);
    }
    close(next);
    churn();
  }
}

// All descriptors that it may have are in use but one, which comes and goes.
static void used_up_descriptors(void) {
  int last = -1;
  for (int next = 0; next >= 0; next = dup(0)) last = next;
  say_ready();
  while (!is_over()) {
    for (int i = 0; i < 100; ++i) {
      close(last);
      EXPECT_EQUAL(dup(0), last);
    }
    churn();
  }
}

static void no_standard_files(void) {
  say_ready();
  for (int i = 0; i < 3; ++i) close(i);
  while (!is_over()) {
    for (int i = 0; i < 3; ++i) EXPECT(fcntl(i, F_GETFD) == -1 && errno == EBADF);
    churn();
  }
}

// What it closes is closed at once: the reader sees the end, the lock is free, the name too.
static void closes_files(void) {
  char path[] = "/tmp/heapsnap-odd-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) skip("mkstemp");
  close(file);
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  const int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "odd-%d", getpid());
  const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
  const int set = epoll_create1(0);
  say_ready();
  while (!is_over()) {
    int ends[2];
    EXPECT_EQUAL(pipe2(ends, O_NONBLOCK), 0);
    struct epoll_event event = {.events = EPOLLIN};
    EXPECT_EQUAL(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event), 0);
    EXPECT_EQUAL(close(ends[1]), 0);
    char byte;
    EXPECT_EQUAL(read(ends[0], &byte, 1), 0);
    EXPECT_EQUAL(close(ends[0]), 0);
    EXPECT_EQUAL(epoll_wait(set, &event, 1, 0), 0);

    const int locked = open(path, O_RDWR | O_CLOEXEC);
    EXPECT_EQUAL(flock(locked, LOCK_EX | LOCK_NB), 0);
    EXPECT_EQUAL(close(locked), 0);

    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQUAL(bind(listener, (struct sockaddr*)&name, size), 0);
    EXPECT_EQUAL(close(listener), 0);
    churn();
  }
  unlink(path);
}

// Holds a record lock, which ends when any descriptor of the file is closed by the process.
static void record_lock(void) {
  const int file = open_temporary();
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 100};
  if (fcntl(file, F_SETLK, &lock) != 0) skip("F_SETLK");
  const pid_t self = getpid();
  int ends[2];
  if (pipe(ends) != 0) skip("pipe");
  const pid_t child = fork();
  if (child == 0) {
    while (!is_over()) {
      struct flock other = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 100};
      EXPECT_EQUAL(fcntl(file, F_GETLK, &other), 0);
      EXPECT(other.l_type == F_WRLCK && other.l_pid == self);
      did();
    }
    _exit(0);
  }
  say_ready();
  while (!is_over()) churn();
  EXPECT_EQUAL(waitpid(child, NULL, 0), child);
}

// Holds a lease on a file that it has mapped, and would be told of anybody who opens it.
static atomic_int broken;
static void count_break(int number) {
  (void)number;
  atomic_fetch_add(&broken, 1);
}
static void leased_file(void) {
  char path[] = "/tmp/heapsnap-odd-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0 || ftruncate(file, 8192) != 0) skip("mkstemp");
  void* const memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  signal(SIGIO, count_break);
  const int result = fcntl(file, F_SETLEASE, F_WRLCK);
  if (memory == MAP_FAILED || result != 0) {
    unlink(path);
    skip("F_SETLEASE");
  }
  say_ready();
  while (!is_over()) {
    EXPECT_EQUAL(atomic_load(&broken), 0);
    EXPECT_EQUAL(fcntl(file, F_GETLEASE), F_WRLCK);
    churn();
  }
  unlink(path);
}

// Events come once each, and from the descriptor that they belong to.
static void edge_events(void) {
  const int set = epoll_create1(0);
  const int counter = eventfd(0, EFD_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data = {.u64 = 77}};
  if (epoll_ctl(set, EPOLL_CTL_ADD, counter, &event) != 0) skip("epoll_ctl");
  say_ready();
  for (uint64_t round = 1; !is_over(); ++round) {
    EXPECT_EQUAL(epoll_wait(set, &event, 1, 2), 0);
    EXPECT_EQUAL(write(counter, &round, sizeof round), sizeof round);
    EXPECT_EQUAL(epoll_wait(set, &event, 1, 1000), 1);
    EXPECT_EQUAL(event.data.u64, 77);
    uint64_t value = 0;
    EXPECT_EQUAL(read(counter, &value, sizeof value), sizeof value);
    EXPECT_EQUAL(value, round);
    churn();
  }
}

// Asynchronous reads into the heap by the kernel's old interface, waited for without a limit.
static void asynchronous_reads(void) {
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, 16, &context) != 0) skip("io_setup");
  const int file = open_temporary();
  unsigned char* const buffer = aligned_alloc(4096, 65536);
  say_ready();
  for (unsigned char round = 1; !is_over(); ++round) {
    memset(buffer, round, 65536);
    EXPECT_EQUAL(pwrite(file, buffer, 65536, 0), 65536);
    memset(buffer, 0, 65536);
    struct iocb blocks[16];
    struct iocb* list[16];
    memset(blocks, 0, sizeof blocks);
    for (size_t i = 0; i < 16; ++i) {
      blocks[i].aio_fildes = (uint32_t)file;
      blocks[i].aio_lio_opcode = IOCB_CMD_PREAD;
      blocks[i].aio_buf = (uint64_t)(uintptr_t)(buffer + i * 4096);
      blocks[i].aio_nbytes = 4096;
      blocks[i].aio_offset = (int64_t)i * 4096;
      list[i] = &blocks[i];
    }
    EXPECT_EQUAL(syscall(SYS_io_submit, context, 16, list), 16);
    struct io_event events[16];
    EXPECT_EQUAL(syscall(SYS_io_getevents, context, 16, 16, events, NULL), 16);
    for (size_t i = 0; i < 65536; i += 4096) EXPECT_EQUAL(buffer[i], round);
    churn();
  }
}

// The kernel's ring, with a thread of the kernel that polls it.
static void submission_ring(void) {
  struct io_uring_params parameters;
  memset(&parameters, 0, sizeof parameters);
  parameters.flags = IORING_SETUP_SQPOLL;
  parameters.sq_thread_idle = 2000;
  const int ring = (int)syscall(SYS_io_uring_setup, 4, &parameters);
  if (ring < 0) skip("io_uring_setup");
  unsigned char* const queue = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                                    ring, IORING_OFF_SQ_RING);
  struct io_uring_sqe* const entries =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
  if (queue == MAP_FAILED || entries == MAP_FAILED) skip("the ring's mappings");
  _Atomic uint32_t* const submitted = (_Atomic uint32_t*)(queue + parameters.sq_off.tail);
  _Atomic uint32_t* const flags = (_Atomic uint32_t*)(queue + parameters.sq_off.flags);
  uint32_t* const order = (uint32_t*)(queue + parameters.sq_off.array);
  _Atomic uint32_t* const taken = (_Atomic uint32_t*)(queue + parameters.cq_off.head);
  _Atomic uint32_t* const completed = (_Atomic uint32_t*)(queue + parameters.cq_off.tail);
  const struct io_uring_cqe* const results =
      (const struct io_uring_cqe*)(queue + parameters.cq_off.cqes);
  say_ready();
  for (uint64_t round = 0; !is_over(); ++round) {
    const uint32_t tail = atomic_load(submitted);
    const uint32_t slot = tail % parameters.sq_entries;
    memset(&entries[slot], 0, sizeof entries[slot]);
    entries[slot].opcode = IORING_OP_NOP;
    entries[slot].user_data = round;
    order[slot] = slot;
    atomic_store(submitted, tail + 1);
    if (atomic_load(flags) & IORING_SQ_NEED_WAKEUP) {
      syscall(SYS_io_uring_enter, ring, 1, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0);
    }
    while (atomic_load(completed) == atomic_load(taken)) {
      syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    }
    const uint32_t head = atomic_load(taken);
    EXPECT_EQUAL(results[head % parameters.cq_entries].user_data, round);
    atomic_store(taken, head + 1);
    churn();
  }
}

const struct Kind file_kinds[] = {{"lowest_descriptor", lowest_descriptor},
                                  {"used_up_descriptors", used_up_descriptors},
                                  {"no_standard_files", no_standard_files},
                                  {"closes_files", closes_files},
                                  {"record_lock", record_lock},
                                  {"leased_file", leased_file},
                                  {"edge_events", edge_events},
                                  {"asynchronous_reads", asynchronous_reads},
                                  {"submission_ring", submission_ring},
                                  {NULL, NULL}};
