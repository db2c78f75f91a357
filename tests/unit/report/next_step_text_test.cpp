#include "report/next_step_text.h"

#include <doctest/doctest.h>

#include "report/advice_text.h"
#include "report/mapping_group_text.h"
#include "report/shell_word.h"
#include "report/tracked_start.h"
#include "tests/unit/report/sample_snapshot.h"

using namespace heapsnap;
using test::SampleReport;

namespace {

NextStepText text_of(NextStep next, const std::string& path = "server.hsnap") {
  const SampleReport report(test::sample_snapshot());
  ReportInput input = report.input();
  input.next = std::move(next);
  input.snapshot_path = path;
  return next_step_text(input);
}

MappingGroup group(MappingKind kind, uint64_t count, uint64_t size, std::string text = {}) {
  MappingGroup made;
  made.kind = kind;
  made.count = count;
  made.size = size;
  made.name = made.evidence = std::move(text);
  made.unit = 1 << 20;
  return made;
}

}  // namespace

TEST_CASE("each step has a sentence that ends in a colon, and commands") {
  for (int action = 0; action <= static_cast<int>(NextAction::kWhoMaps); ++action) {
    for (int subject = 0; subject <= static_cast<int>(NextSubject::kInUse); ++subject) {
      CAPTURE(action);
      CAPTURE(subject);
      const NextStepText text =
          text_of({static_cast<NextSubject>(subject), static_cast<NextAction>(action), 1 << 20,
                   action == static_cast<int>(NextAction::kStatistics) ? "jemalloc" : ""});
      CHECK(text.why.ends_with(":"));
      CHECK(text.why.find(". ") != std::string::npos);
      REQUIRE_FALSE(text.commands.empty());
      for (const std::string& command : text.commands) CHECK_FALSE(command.empty());
    }
  }
}

TEST_CASE("commands name the process and the snapshot") {
  using Commands = std::vector<std::string>;
  const auto commands = [](NextAction action) {
    return text_of({NextSubject::kInUse, action, 0, {}}).commands;
  };
  CHECK(commands(NextAction::kTrack) == Commands{"heapsnap inject 4242", "heapsnap stacks 4242"});
  CHECK(commands(NextAction::kStacks) == Commands{"heapsnap stacks server.hsnap"});
  CHECK(commands(NextAction::kTrackNextRun) == Commands{"heapsnap run -- /opt/server ARGUMENTS"});
  CHECK(text_of({NextSubject::kInUse, NextAction::kStacks, 0, {}}, "my snap's.hsnap").commands ==
        Commands{"heapsnap stacks 'my snap'\\''s.hsnap'"});
  // What would move the cursor cannot be typed either.
  CHECK(text_of({NextSubject::kInUse, NextAction::kStacks, 0, {}}, "a\x1b[2J").commands ==
        Commands{"heapsnap stacks FILE"});
  CHECK(text_of({NextSubject::kInUse, NextAction::kStacks, 0, {}}, "").commands ==
        Commands{"heapsnap stacks FILE"});
}

TEST_CASE("it says what inject cannot show, and what else gives memory back or tells more") {
  NextStep next{NextSubject::kInUse, NextAction::kTrack, 1 << 20, {}};
  next.trim_bytes = 10 << 20;
  next.runtime = NextRuntime::kPostgres;
  const auto more = text_of(next).more;
  REQUIRE(more.size() == 2);
  CHECK(
      more[0].text ==
      "Blocks that exist now get no call stack; inject records new ones only. Run the query again "
      "in this session before you list them.");
  CHECK(more[1].text == "To give 10.0 MiB in whole free pages back to the kernel:");
  CHECK(more[1].commands == std::vector<std::string>{"heapsnap trim 4242"});
  const std::string why = text_of(next).why;
  CHECK(why.find("SELECT pg_log_backend_memory_contexts(4242)") < why.find("record call stacks"));
  NextStep stacks{NextSubject::kInUse, NextAction::kStacks, 1 << 20, {}};
  stacks.churned_bytes = 1 << 30;
  REQUIRE(text_of(stacks).more.size() == 1);
  CHECK(text_of(stacks).more[0].text ==
        "1.0 GiB was allocated and freed again, much more than is in use. To see by which "
        "functions:");
  CHECK(text_of(stacks).more[0].commands ==
        std::vector<std::string>{"heapsnap stacks server.hsnap --by function --sort churn"});
  // Contexts that are in the snapshot need no server to say what they are.
  next.has_objects = true;
  // They come before call stacks.
  CHECK(text_of(next).why ==
        "The program's blocks in use take 1.0 MiB of resident memory. To see the server's memory "
        "contexts, by name:");
  CHECK(text_of(next).commands == std::vector<std::string>{"heapsnap objects server.hsnap"});
  CHECK(text_of(next).more[0].commands ==
        std::vector<std::string>{"heapsnap inject 4242", "heapsnap stacks 4242"});
  next.has_objects = false;
  next.runtime = NextRuntime::kNone;
  CHECK(text_of(next).more[0].text.ends_with("heapsnap run -- COMMAND"));
  CHECK(text_of({NextSubject::kInUse, NextAction::kStacks, 0, {}}).more.empty());
}

TEST_CASE("fragmentation is drawn, by a command") {
  Advice advice;
  advice.kind = AdviceKind::kFragmentation;
  advice.bytes = 8 << 20;
  CHECK(advice_text(advice, {}, "my snap.hsnap").action ==
        "look for long-lived blocks allocated between short-lived ones: heapsnap render 'my "
        "snap.hsnap' -o heap.png draws where they lie");
}

TEST_CASE("PostgreSQL's backends are tracked by way of the postmaster that forks them") {
  Process process;
  process.exe = "/usr/lib/postgresql/15/bin/postgres (deleted)";
  CHECK(tracked_start_command(process) == "heapsnap inject POSTMASTER");
  process.exe = "/usr/bin/psql";
  CHECK(tracked_start_text(process) == "start it under heapsnap: heapsnap run -- COMMAND");
}

TEST_CASE("words of a shell") {
  CHECK(shell_word("/opt/a-b_c.1,2:3@4+5=6%7", "X") == "/opt/a-b_c.1,2:3@4+5=6%7");
  CHECK(shell_word("a b", "X") == "'a b'");
  CHECK(shell_word("$(reboot)", "X") == "'$(reboot)'");
  CHECK(shell_word("-f", "X") == "./-f");
  CHECK(shell_word("-f x", "X") == "'./-f x'");
  CHECK(shell_word("a\nb", "X") == "X");
  CHECK(shell_word("\xff", "X") == "X");
}

TEST_CASE("groups of mappings say how many, how large and what like") {
  CHECK(mapping_group_label(group(MappingKind::kFile, 1, 0, "/dev/zero")) ==
        "/dev/zero (anonymous shared memory)");
  CHECK(mapping_group_label(group(MappingKind::kLarge, 1, 64 << 20)) == "1 of 64.0 MiB");
  CHECK(mapping_group_label(group(MappingKind::kSameSize, 4, 64 << 20)) ==
        "4 of 64.0 MiB, like arenas");
  CHECK(mapping_group_label(group(MappingKind::kPython, 1, 0, "python3.11")) ==
        "1 mapping, like pymalloc arenas");
  CHECK(mapping_group_label(group(MappingKind::kAllocator, 23, 0, "jem\x1b")) ==
        "23 mappings, probably jem\\x1b's");
  CHECK(mapping_group_label(group(MappingKind::kNamed, 1, 4096, "[anon:x]")) == "[anon:x]");
  CHECK(mapping_group_label(group(MappingKind::kNamed, 2, 4096, "[anon:x]")) ==
        "[anon:x], 2 mappings");
  CHECK(mapping_group_label(group(MappingKind::kOthers, 1, 0)) == "1 other");
  CHECK(mapping_group_label(group(MappingKind::kOthers, 1234, 0)) == "1,234 others");
  CHECK(mapping_group_evidence(group(MappingKind::kPython, 2, 0, "python3.11")) ==
        "Like pymalloc arenas: python3.11 is mapped, and their sizes are multiples of 1.0 MiB.");
  CHECK(mapping_group_evidence(group(MappingKind::kLarge, 1, 1)).empty());
}
