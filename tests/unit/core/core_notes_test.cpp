#include "core/core_notes.h"

#include <doctest/doctest.h>

#include <csignal>

#include "core_builder.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

CoreNotes notes_of(Machine machine, const Bytes& notes) {
  const Bytes core = make_core(machine, notes, {});
  return read_core_notes(ElfHeaders::parse(core, "core"));
}

}  // namespace

TEST_CASE("process, threads, files and auxiliary vector of every machine") {
  for (const Machine machine : {Machine::kX86_64, Machine::kAarch64, Machine::kI386}) {
    CAPTURE(static_cast<int>(machine));
    CoreNotesBuilder builder(machine);
    builder.process(4711, 1000, "worker", "worker --fast ")
        .thread(4711, SIGSEGV, 0x401000, 0x7ffe0000, 0x7f000740)
        .thread(4712, 0, 0x402000, 0x7ffd0000, 0x7f000f40)
        .auxiliary({{AT_PAGESZ, 16384}, {AT_ENTRY, 0x400800}, {AT_NULL, 0}, {AT_PHDR, 1}})
        .files(16384, {{0x400000, 0x404000, 0, "/bin/worker"},
                       {0x500000, 0x504000, 3, "/lib/gone.so (deleted)"},
                       {0x600000, 0x604000, 0, " (deleted)"}});
    const CoreNotes notes = notes_of(machine, builder.bytes());
    CHECK(notes.process.machine == machine);
    CHECK(notes.process.pid == 4711);
    CHECK(notes.process.uid == 1000);
    CHECK(notes.process.comm == "worker");
    CHECK(notes.process.command_line == "worker --fast");
    CHECK(notes.process.fatal_signal == SIGSEGV);
    CHECK(notes.process.page_size == 16384);
    REQUIRE(notes.threads.size() == 2);
    CHECK(notes.threads[1].tid == 4712);
    REQUIRE(notes.threads[1].registers);
    CHECK(notes.threads[1].registers->instruction_pointer == Address(0x402000));
    CHECK(notes.threads[1].registers->stack_pointer == Address(0x7ffd0000));
    CHECK(notes.threads[0].registers->thread_pointer == Address(0x7f000740));
    CHECK(notes.threads[1].registers->thread_pointer == Address(0x7f000f40));
    CHECK(notes.auxiliary(AT_ENTRY) == 0x400800);
    CHECK_FALSE(notes.auxiliary(AT_PHDR));
    REQUIRE(notes.files.size() == 3);
    CHECK(notes.files[0].path == "/bin/worker");
    CHECK_FALSE(notes.files[0].deleted);
    CHECK(notes.files[1].path == "/lib/gone.so");
    CHECK(notes.files[1].deleted);
    CHECK(notes.files[1].offset == 3 * 16384);
    CHECK(notes.files[1].range == AddressRange{Address(0x500000), Address(0x504000)});
    CHECK(notes.files[2].path == " (deleted)");  // a mark of nothing is a name
    CHECK_FALSE(notes.files[2].deleted);
  }
}

TEST_CASE("all general registers, by their numbers in DWARF") {
  // Each word of the note's registers holds 0x100 and its own number: what <sys/user.h> of each
  // machine calls one is at that number.
  struct Place {
    unsigned number;
    const char* name;
    unsigned word;
  };
  struct Layout {
    Machine machine;
    size_t size, begin, words;
    std::vector<Place> places;
  };
  const std::vector<Layout> layouts = {
      {Machine::kX86_64,
       336,
       112,
       27,
       {{0, "rax", 10},
        {1, "rdx", 12},
        {2, "rcx", 11},
        {3, "rbx", 5},
        {4, "rsi", 13},
        {5, "rdi", 14},
        {6, "rbp", 4},
        {7, "rsp", 19},
        {8, "r8", 9},
        {9, "r9", 8},
        {10, "r10", 7},
        {11, "r11", 6},
        {12, "r12", 3},
        {13, "r13", 2},
        {14, "r14", 1},
        {15, "r15", 0}}},
      {Machine::kAarch64,
       392,
       112,
       34,
       {{0, "x0", 0}, {1, "x1", 1}, {29, "x29", 29}, {30, "x30", 30}, {31, "sp", 31}}},
      {Machine::kI386,
       144,
       72,
       17,
       {{0, "eax", 6},
        {1, "ecx", 1},
        {2, "edx", 2},
        {3, "ebx", 0},
        {4, "esp", 15},
        {5, "ebp", 5},
        {6, "esi", 3},
        {7, "edi", 4}}}};
  for (const Layout& layout : layouts) {
    CAPTURE(static_cast<int>(layout.machine));
    Bytes status(layout.size);
    for (size_t word = 0; word < layout.words; ++word) {
      if (layout.machine == Machine::kI386) {
        put_at(status, layout.begin + word * 4, static_cast<uint32_t>(0x100 + word));
      } else {
        put_at(status, layout.begin + word * 8, uint64_t{0x100 + word});
      }
    }
    CoreNotesBuilder builder(layout.machine);
    builder.note("CORE", NT_PRSTATUS, status);
    const CoreNotes notes = notes_of(layout.machine, builder.bytes());
    REQUIRE(notes.threads.size() == 1);
    const GeneralRegisters& general = notes.threads[0].registers->general;
    CHECK(general.are_known);
    for (const Place& place : layout.places) {
      CAPTURE(std::string(place.name));
      CHECK(std::string(general_register_name(layout.machine, place.number)) == place.name);
      CHECK(general.values.at(place.number) == 0x100 + place.word);
    }
    const unsigned stack = stack_register(layout.machine);
    CHECK(general.values.at(stack) == notes.threads[0].registers->stack_pointer.value());
    CHECK(std::string(
              general_register_name(layout.machine, general_register_count(layout.machine))) == "");
  }
}

TEST_CASE("the signal by which gcore itself stopped the process did not end it") {
  CoreNotesBuilder builder(Machine::kX86_64);
  builder.thread(1, SIGSTOP, 1, 1, 1);
  CHECK(notes_of(Machine::kX86_64, builder.bytes()).process.fatal_signal == 0);
  // NT_SIGINFO says it where the thread's status does not.
  Bytes info(128);
  put_at(info, 0, int32_t{SIGABRT});
  builder.note("CORE", NT_SIGINFO, info);
  CHECK(notes_of(Machine::kX86_64, builder.bytes()).process.fatal_signal == SIGABRT);
}

TEST_CASE("notes of other owners, of odd sizes and with wild counts are left out") {
  CoreNotesBuilder builder(Machine::kX86_64);
  builder.note("GNU", NT_PRSTATUS, Bytes(336))
      .note("CORE", NT_PRSTATUS, Bytes(100))
      .note("CORE", NT_PRPSINFO, Bytes(3))
      .note("LINUX", 0x401, Bytes(8));
  Bytes wild;
  put(wild, UINT64_MAX / 8);
  put(wild, uint64_t{4096});
  wild.resize(wild.size() + 24);
  builder.note("CORE", NT_FILE, wild);
  // A file offset that overflows, an empty range, a list of names that ends early.
  builder.files(4096, {{0x1000, 0x2000, UINT64_MAX / 2, "/overflow"},
                       {0x3000, 0x3000, 0, "/empty"},
                       {0x4000, 0x5000, 0, "/whole"}});
  Bytes short_names;
  for (const uint64_t word : {2UL, 4096UL, 0x6000UL, 0x7000UL, 0UL, 0x8000UL, 0x9000UL, 0UL}) {
    put(short_names, word);
  }
  put_text(short_names, std::string_view("/one\0/two", 9));
  builder.note("CORE", NT_FILE, short_names);
  const CoreNotes notes = notes_of(Machine::kX86_64, builder.bytes());
  CHECK(notes.threads.empty());
  CHECK(notes.process.pid == 0);
  CHECK(notes.process.page_size == 4096);
  REQUIRE(notes.files.size() == 2);
  CHECK(notes.files[0].path == "/whole");
  CHECK(notes.files[1].path == "/one");
}
