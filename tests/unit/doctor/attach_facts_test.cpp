#include "tools/doctor/attach_facts.h"

#include <doctest/doctest.h>
#include <elf.h>
#include <unistd.h>

#include "tests/unit/linux/fixture_tree.h"

using namespace heapsnap;

namespace {

std::string stat_of(int pid, const std::string& name, char state, uint32_t flags = 0) {
  return std::to_string(pid) + " (" + name + ") " + state + " 1 1 1 0 -1 " + std::to_string(flags) +
         " 0 0 0 0 0 0 0 0 20 0 1 0 5000 0 0\n";
}

// A process with two threads, of which the second waits in vfork.
void write_process(const FixtureTree& tree) {
  tree.write("proc/70/status",
             "Name:\tweb\nState:\tS (sleeping)\nTgid:\t70\nPid:\t70\nPPid:\t1\nTracerPid:\t90\n"
             "Uid:\t5\t5\t5\t5\nGid:\t5\t5\t5\t5\nThreads:\t2\nSeccomp:\t2\nVmSize:\t9 kB\n");
  tree.write("proc/70/stat", stat_of(70, "web", 'S'));
  tree.write("proc/70/task/70/stat", "");
  tree.write("proc/70/task/71/stat", "");
  tree.write("proc/71/status", "Name:\tweb\nState:\tD\nTgid:\t70\nPid:\t71\n");
  tree.write("proc/71/stat", stat_of(71, "web worker) (", 'D'));
  tree.write("proc/71/syscall", "58 0x0 0x1\n");
  tree.write("proc/90/comm", "gdb\n");
  // The kernel shows the same under each tid.
  for (const std::string tid : {"proc/70", "proc/71"}) {
    tree.write(tid + "/maps",
               "7f0000000000-7f0000001000 r-xp 00000000 08:01 77 /lib/libc.so.6 (deleted)\n"
               "7f0000002000-7f0000003000 r-xp 00000000 08:01 78 /lib/libjemalloc.so.2\n");
    tree.write(tid + "/exe", "no ELF file");
    tree.write(tid + "/mem", "");
  }
  tree.write("proc/70/cgroup", "0::/app\n");
  tree.write("proc/70/attr/current", "docker-default (enforce)\n");
  tree.write("sys/fs/cgroup/app/cgroup.freeze", "1\n");
  tree.link("proc/70/ns/pid", "pid:[1]");
  tree.link("proc/70/ns/mnt", "mnt:[1]");
  tree.link("proc/70/ns/pid_for_children", "pid:[3]");
  tree.link("proc/self/ns/pid", "pid:[2]");
  tree.link("proc/self/ns/mnt", "mnt:[1]");
  tree.write("proc/self/uid_map", "         0          0 4294967295\n");
  tree.write("proc/70/uid_map", "         0     100000      65536\n");
}

}  // namespace

TEST_CASE("kernel versions") {
  CHECK(parse_kernel_version("6.1.0-18-amd64\n") == KernelVersion{6, 1});
  CHECK(parse_kernel_version("5.10") == KernelVersion{5, 10});
  CHECK(parse_kernel_version("4.18-rc1") == KernelVersion{4, 18});
  CHECK(parse_kernel_version("next") == KernelVersion{});
  CHECK(parse_kernel_version("6.x") == KernelVersion{});
  CHECK(KernelVersion{5, 10} < KernelVersion{5, 11});
  CHECK(KernelVersion{5, 99} < KernelVersion{6, 0});
}

TEST_CASE("a debugger is found that has come to one thread and not yet to the others") {
  const FixtureTree tree;
  write_process(tree);
  tree.write("proc/70/status", "Name:\tweb\nState:\tS\nTgid:\t70\nPid:\t70\nTracerPid:\t0\n");
  CHECK(gather_target_facts(70, files_of(tree)).status.tracer == 0);
  tree.write("proc/71/status", "Name:\tweb\nState:\tt\nTgid:\t70\nPid:\t71\nTracerPid:\t90\n");
  const TargetFacts target = gather_target_facts(70, files_of(tree));
  CHECK(target.status.tracer == 90);
  CHECK(target.tracer_name == "gdb");
  // A thread of heapsnap's.
  tree.write("proc/90/status",
             "Name:\theapsnap\nTgid:\t" + std::to_string(::getpid()) + "\nPid:\t90\nState:\tS\n");
  CHECK(gather_target_facts(70, files_of(tree)).status.tracer == 0);
}

TEST_CASE("a process is read from its files, by any of its tids") {
  const FixtureTree tree;
  write_process(tree);
  for (const int pid : {70, 71}) {
    CAPTURE(pid);
    const TargetFacts target = gather_target_facts(pid, files_of(tree));
    REQUIRE(target.presence == Presence::kPresent);
    CHECK(target.pid == pid);
    CHECK(target.status.thread_group == 70);
    CHECK(target.status.name == "web");
    CHECK(target.live_tid.has_value());
    CHECK(target.tracer_name == "gdb");
    CHECK(target.files_owner == ::getuid());
    CHECK(target.stuck_tid == 71);
    CHECK(target.stuck_syscall == 58);
    CHECK(target.user_namespace == UserNamespace::kOther);
    CHECK(target.other_pid_namespace);
    CHECK_FALSE(target.other_mount_namespace);
    CHECK(target.children_in_other_pid_namespace);
    CHECK(target.label == "docker-default (enforce)");
    CHECK(target.limits.frozen);
    CHECK_FALSE(target.page_map_readable);
    CHECK(target.access == Access::kUnknown);
  }
  const TargetFacts target = gather_target_facts(70, files_of(tree));
  CHECK(target.memory_file_readable);
  CHECK_FALSE(target.elf_machine);
}

TEST_CASE("damaged and missing files are no reason to throw") {
  const FixtureTree tree;
  // No machine has a process with this number (PID_MAX_LIMIT is 4194304).
  constexpr int kPid = 400000000;
  const std::string folder = "proc/" + std::to_string(kPid);
  CHECK(gather_target_facts(kPid, files_of(tree)).presence == Presence::kAbsent);
  tree.write(folder + "/stat", "garbage");
  CHECK(gather_target_facts(kPid, files_of(tree)).presence == Presence::kAbsent);
  tree.write(folder + "/status", "Name:\tx\nState:\tS\nTgid:\t400000000\nPid:\t400000000\n");
  CHECK(gather_target_facts(kPid, files_of(tree)).status.name == "");
  tree.write(folder + "/stat", stat_of(kPid, "x", 'S'));
  tree.write(folder + "/task/400000000/stat", "");
  tree.write(folder + "/maps", "no maps at all\n");
  const TargetFacts target = gather_target_facts(kPid, files_of(tree));
  CHECK(target.presence == Presence::kPresent);
  CHECK(target.status.name == "x");
}

TEST_CASE("the machine is read from its files") {
  const FixtureTree tree;
  tree.write("proc/self/status",
             "Name:\theapsnap\nState:\tR\nUid:\t0\t0\t0\t0\nSeccomp:\t2\n"
             "CapEff:\t0000000000080000\n");
  tree.write("proc/self/attr/current", std::string("system_u:system_r:spc_t:s0\0", 27));
  tree.write("proc/sys/kernel/osrelease", "5.14.0-70.el9\n");
  tree.write("proc/sys/kernel/yama/ptrace_scope", "1\n");
  tree.write("proc/sys/vm/overcommit_memory", "2\n");
  tree.write("proc/meminfo", "MemAvailable: 10 kB\n");
  tree.write("sys/kernel/security/lsm", "capability,yama,selinux\n");
  tree.write("sys/fs/selinux/enforce", "1");
  tree.write("sys/fs/selinux/booleans/deny_ptrace", "1 1");
  const MachineFacts machine = gather_machine_facts(files_of(tree));
  CHECK(machine.kernel == KernelVersion{5, 14});
  CHECK(machine.self.capabilities_effective == kCapSysPtrace);
  CHECK(machine.self.seccomp == SeccompMode::kFilter);
  CHECK(machine.yama_scope == 1u);
  CHECK(machine.security_modules == "capability,yama,selinux");
  CHECK(machine.selinux_enforcing);
  CHECK(machine.selinux_denies_ptrace);
  CHECK(machine.own_label == "system_u:system_r:spc_t:s0");
  CHECK(machine.memory.available == 10240);
  CHECK(machine.memory.strict_overcommit);
  CHECK(machine.syscalls.ptrace == Availability::kUnknown);

  const FixtureTree empty;
  const MachineFacts nothing = gather_machine_facts(files_of(empty));
  CHECK(nothing.kernel == KernelVersion{});
  CHECK_FALSE(nothing.yama_scope.has_value());
  CHECK_FALSE(nothing.selinux_enforcing);
}

TEST_CASE("this machine can be asked") {
  CHECK(probe_access(::getpid()) == Access::kPermitted);
  CHECK(probe_access(400000000) == Access::kNoMemory);
  const OwnSyscalls syscalls = probe_own_syscalls();
  CHECK(syscalls.ptrace != Availability::kUnknown);
  CHECK(syscalls.process_vm_readv != Availability::kUnknown);
  const AttachFacts facts = gather_attach_facts(::getpid());
  REQUIRE(facts.target.has_value());
  CHECK(facts.target->is_self);
  CHECK(facts.target->user_namespace == UserNamespace::kSame);
  CHECK(facts.target->elf_machine == EM_X86_64);
}
