#include "platform/linux/proc/process_status.h"

#include <doctest/doctest.h>

using namespace heapsnap;

namespace {

constexpr std::string_view kPostgres =
    "Name:\tpostgres\nUmask:\t0077\nState:\tS (sleeping)\nTgid:\t4711\nNgid:\t0\nPid:\t4712\n"
    "PPid:\t4700\nTracerPid:\t99\nUid:\t105\t106\t107\t108\nGid:\t113\t114\t115\t116\nFDSize:\t64\n"
    "Groups:\t106 113 \nNStgid:\t4711\t12\nNSpid:\t4712\t13\t1\nVmPeak:\t  220104 kB\n"
    "VmSize:\t  219952 kB\nVmLck:\t       8 kB\nVmRSS:\t   29496 kB\nRssAnon:\t    4000 kB\n"
    "RssFile:\t   25000 kB\nRssShmem:\t     496 kB\n"
    "VmData:\t    1000 kB\nVmStk:\t     132 kB\nVmPTE:\t     140 kB\nVmSwap:\t      16 kB\n"
    "HugetlbPages:\t    2048 kB\nThreads:\t3\nSigQ:\t0/15432\nSigPnd:\t0000000000000001\n"
    "ShdPnd:\t0000000000000200\nSigBlk:\t00000000fffffeff\nSigIgn:\t0000000000001000\nSigCgt:"
    "\t0000000000004a02\nCapPrm:\t0000000000080000\n"
    "CapEff:\t0000000000200000\nCapBnd:\t000001ffffffffff\nSeccomp:\t2\nx86_Thread_features:"
    "\tshstk wrss \n";

}  // namespace

TEST_CASE("a status text gives what it says") {
  const auto status = parse_process_status(kPostgres);
  REQUIRE(status.has_value());
  CHECK(status->name == "postgres");
  CHECK(status->state == 'S');
  CHECK(status->pid == 4712);
  CHECK(status->thread_group == 4711);
  CHECK(status->parent == 4700);
  CHECK(status->tracer == 99);
  CHECK(status->uid == ProcessIds{105, 106, 107, 108});
  CHECK(status->gid == ProcessIds{113, 114, 115, 116});
  CHECK(status->namespace_pids == std::vector<int>{4712, 13, 1});
  CHECK(status->capabilities_permitted == kCapSysPtrace);
  CHECK(status->capabilities_effective == kCapSysAdmin);
  CHECK(status->capabilities_bounding == 0x1ffffffffff);
  CHECK(status->seccomp == SeccompMode::kFilter);
  CHECK(status->threads == 3);
  CHECK(status->pending_signals == 1);
  CHECK(status->shared_pending_signals == 0x200);
  CHECK(status->ignored_signals == 0x1000);
  CHECK(status->caught_signals == 0x4a02);
  CHECK(status->blocked_signals == 0xfffffeff);
  CHECK(status->has_memory);
  CHECK(status->rss == 29496 * 1024);
  CHECK(status->rss_anonymous == 4000 * 1024);
  CHECK(status->rss_file == 25000 * 1024);
  CHECK(status->rss_shmem == 496 * 1024);
  CHECK(status->mapped == 219952 * 1024);
  CHECK(status->swap == 16 * 1024);
  CHECK(status->page_tables == 140 * 1024);
  CHECK(status->writable == 1132 * 1024);
  CHECK(status->locked == 8 * 1024);
  CHECK(status->hugetlb == 2048 * 1024);
  CHECK(status->shadow_stack);
}

TEST_CASE("a zombie has no memory, and older kernels say less") {
  const auto zombie = parse_process_status(
      "Name:\tsh\nState:\tZ (zombie)\nTgid:\t7\nPid:\t7\nPPid:\t1\nTracerPid:\t0\nThreads:\t1\n");
  REQUIRE(zombie.has_value());
  CHECK(zombie->is_zombie());
  CHECK_FALSE(zombie->has_memory);
  CHECK(zombie->tracer == 0);
  CHECK(zombie->namespace_pids.empty());
  CHECK(zombie->seccomp == SeccompMode::kUnknown);
  CHECK_FALSE(zombie->shadow_stack);
}

TEST_CASE("damaged texts give nothing or zeros") {
  CHECK_FALSE(parse_process_status("").has_value());
  CHECK_FALSE(parse_process_status("Name:\tx\n").has_value());
  CHECK_FALSE(parse_process_status("Name:\tx\nState:\t\n").has_value());
  const auto odd = parse_process_status(
      "Name:\tx\nState:\tR\nPid:\t99999999999\nUid:\tfoo 1\nVmData:\t18014398509481983 kB\n"
      "VmStk:\t18014398509481983 kB\nNSpid:\n");
  REQUIRE(odd.has_value());
  CHECK(odd->pid == 0);
  CHECK(odd->uid == ProcessIds{0, 1, 0, 0});
  CHECK(odd->writable == UINT64_MAX);
}

TEST_CASE("an owner has all three ids of user and group") {
  ProcessStatus self;
  self.uid = {1000, 0, 0, 0};  // only the real one counts
  self.gid = {1000, 0, 0, 0};
  ProcessStatus target;
  target.uid = {1000, 1000, 1000, 0};
  target.gid = {1000, 1000, 1000, 0};
  CHECK(owns(self, target));
  target.uid.saved = 0;
  CHECK_FALSE(owns(self, target));
  target.uid.saved = 1000;
  target.gid.effective = 5;
  CHECK_FALSE(owns(self, target));
}

TEST_CASE("capabilities have their names") {
  CHECK(capability_names(0) == "");
  CHECK(capability_names(kCapSysPtrace) == "CAP_SYS_PTRACE");
  CHECK(capability_names(kCapSysAdmin | 1) == "CAP_CHOWN, CAP_SYS_ADMIN");
  CHECK(capability_names(uint64_t{1} << 40) == "CAP_CHECKPOINT_RESTORE");
  CHECK(capability_names(uint64_t{1} << 63) == "capability 63");
  CHECK(capability_names(0x3f) ==
        "CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, ...");
}
