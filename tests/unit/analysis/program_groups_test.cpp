#include "analysis/program_groups.h"

#include <doctest/doctest.h>

using namespace heapsnap;

namespace {

constexpr uint64_t kSomeStart = 100;

Process process_of(int pid, const char* comm, const char* exe, const char* host = "a") {
  Process process;
  process.pid = pid;
  process.comm = comm;
  process.exe = exe;
  process.hostname = host;
  process.boot_id = std::string("boot of ") + host;
  process.start_time_ticks = kSomeStart;
  return process;
}

std::vector<size_t> grouped(const std::vector<Process>& processes) {
  return group_by_program(processes);
}

using Groups = std::vector<size_t>;

}  // namespace

TEST_CASE("programs are told apart by name, file and host, in the order of their first snapshots") {
  CHECK(grouped({}).empty());
  CHECK(grouped({process_of(3, "web", "/opt/web"), process_of(1, "mail", "/opt/mail"),
                 process_of(4, "web", "/opt/web"), process_of(3, "web", "/opt/web", "b"),
                 process_of(1, "mail", "/opt/mail")}) == Groups{0, 1, 0, 2, 1});
  // Scripts of one interpreter, and names that are cut off at the same 15 bytes.
  CHECK(grouped({process_of(1, "shop.py", "/usr/bin/python3.11"),
                 process_of(2, "mail.py", "/usr/bin/python3.11")}) == Groups{0, 1});
  CHECK(grouped({process_of(1, "very-long-names", "/opt/very-long-names-a"),
                 process_of(2, "very-long-names", "/opt/very-long-names-b")}) == Groups{0, 1});
}

TEST_CASE("an upgrade is no other program, whatever folder it came from") {
  CHECK(grouped({process_of(1, "web", "/opt/1/web (deleted)"), process_of(2, "web", "/opt/2/web"),
                 process_of(3, "web", "web"), process_of(4, "web", "")}) == Groups{0, 0, 0, 1});
}

TEST_CASE("what one process executes in turn belongs together, and so do its names") {
  CHECK(grouped({process_of(1, "sh", "/bin/dash"), process_of(2, "web", "/opt/web"),
                 process_of(1, "web", "/opt/web"), process_of(3, "sh", "/bin/dash")}) ==
        Groups{0, 0, 0, 0});
  Process later = process_of(1, "mail", "/opt/mail");
  later.start_time_ticks = kSomeStart + 1;
  CHECK(grouped({process_of(1, "web", "/opt/web"), later}) == Groups{0, 1});
}

TEST_CASE("cores with one pid need not be of one process") {
  Process first = process_of(1, "web", "/opt/web", "");
  Process second = process_of(1, "mail", "/opt/mail", "");
  first.boot_id = second.boot_id = "";
  CHECK(grouped({first, second}) == Groups{0, 1});
}
