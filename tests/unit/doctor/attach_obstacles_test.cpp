#include "tools/doctor/attach_obstacles.h"

#include <doctest/doctest.h>
#include <elf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tests/unit/byte_units.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

using Severity = Obstacle::Severity;

// An ordinary user on an ordinary machine, and a process of his: nothing is in the way.
AttachFacts easy_facts() {
  AttachFacts facts;
  facts.machine.kernel = {6, 8};
  facts.machine.self.uid = {1000, 1000, 1000, 1000};
  facts.machine.self.gid = {1000, 1000, 1000, 1000};
  facts.machine.self.seccomp = SeccompMode::kNone;
  facts.machine.self.capabilities_bounding = kCapSysPtrace;
  facts.machine.syscalls = {Availability::kAvailable, Availability::kAvailable};
  facts.machine.memory.available = 64 * kGiB;
  TargetFacts target;
  target.pid = 4711;
  target.presence = Presence::kPresent;
  target.stat.comm = "server";
  target.stat.state = 'S';
  target.status.thread_group = 4711;
  target.status.threads = 3;
  target.status.uid = facts.machine.self.uid;
  target.status.gid = facts.machine.self.gid;
  target.status.seccomp = SeccompMode::kNone;
  target.status.rss = kGiB;
  target.live_tid = 4711;
  target.access = Access::kPermitted;
  target.files_owner = 1000;
  target.user_namespace = UserNamespace::kSame;
  target.elf_machine = EM_X86_64;
  target.allocator.kind = AllocatorVerdict::Kind::kGlibc;
  target.allocator.file = "/usr/lib/libc.so.6";
  target.memory_file_readable = true;
  target.page_map_readable = true;
  facts.target = target;
  return facts;
}

Error explained_refusal(const AttachFacts& facts, int error_number) {
  return explain_attach_refusal(facts, TargetRefusal(4711, error_number));
}

AttachFacts refused_facts() {
  AttachFacts facts = easy_facts();
  facts.target->access = Access::kRefused;
  return facts;
}

// The finding with this id, or nothing.
std::optional<Obstacle> find(const AttachFacts& facts, const std::string& id) {
  for (const Obstacle& obstacle : judge_attach(facts)) {
    if (obstacle.id == id) return obstacle;
  }
  return std::nullopt;
}

std::vector<std::string> blockers(const AttachFacts& facts) {
  std::vector<std::string> ids;
  for (const Obstacle& obstacle : judge_attach(facts)) {
    if (obstacle.severity == Severity::kBlocks) ids.push_back(obstacle.id);
  }
  return ids;
}

using Ids = std::vector<std::string>;

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("nothing is in the way of an easy target") {
  const auto found = judge_attach(easy_facts());
  CHECK(found.size() >= 7);
  for (const Obstacle& obstacle : found) {
    CAPTURE(obstacle.id);
    CHECK(obstacle.severity == Severity::kOk);
    CHECK_FALSE(obstacle.what.empty());
    CHECK_FALSE(obstacle.why.empty());
  }
}

TEST_CASE("no process, a hidden one, ourselves") {
  AttachFacts facts = easy_facts();
  facts.target->presence = Presence::kAbsent;
  CHECK(blockers(facts) == Ids{"process"});
  CHECK(find(facts, "process")->kind == ErrorKind::kNoProcess);
  CHECK(judge_attach(facts).size() == 1);

  facts.target->presence = Presence::kHidden;
  CHECK(blockers(facts) == Ids{"hidden-process"});
  CHECK(find(facts, "hidden-process")->kind == ErrorKind::kNotPermitted);

  facts = easy_facts();
  facts.target->is_self = true;
  CHECK(blockers(facts) == Ids{"self"});
}

TEST_CASE("zombies, kernel threads, and a leader that ended before its threads") {
  AttachFacts facts = easy_facts();
  facts.target->live_tid.reset();
  facts.target->status.parent = 42;
  CHECK(blockers(facts) == Ids{"zombie"});
  CHECK(find(facts, "zombie")->kind == ErrorKind::kNoProcess);
  CHECK(holds(find(facts, "zombie")->remedy, "-p 42"));

  facts = easy_facts();
  facts.target->stat.flags = 0x00200000;  // PF_KTHREAD
  CHECK(blockers(facts) == Ids{"kernel-thread"});
  CHECK(find(facts, "kernel-thread")->kind == ErrorKind::kUnsupported);

  facts = easy_facts();
  facts.target->stat.state = 'Z';
  facts.target->live_tid = 4712;
  CHECK(blockers(facts).empty());
  CHECK(holds(find(facts, "process")->why, "main thread has ended"));

  facts = easy_facts();
  facts.target->pid = 4713;
  CHECK(holds(find(facts, "process")->why, "4713 is one of its threads"));
}

TEST_CASE("a refusal has the cause that has to go first") {
  SUBCASE("another owner") {
    AttachFacts facts = refused_facts();
    facts.machine.yama_scope = 1;
    facts.target->status.uid = {0, 0, 0, 0};
    REQUIRE(blockers(facts) == Ids{"owner"});
    CHECK(find(facts, "owner")->what == "It belongs to root");
    CHECK(holds(find(facts, "owner")->why, "user 1000 without CAP_SYS_PTRACE"));
    CHECK(find(facts, "owner")->remedy == "sudo heapsnap attach 4711");
  }
  SUBCASE("the same user in another group") {
    AttachFacts facts = refused_facts();
    facts.target->status.gid.effective = 5;
    CHECK(blockers(facts) == Ids{"owner"});
  }
  SUBCASE("more capabilities than ours") {
    AttachFacts facts = refused_facts();
    facts.target->status.capabilities_permitted = 1 << 10;
    REQUIRE(blockers(facts) == Ids{"capabilities"});
    CHECK(holds(find(facts, "capabilities")->why, "CAP_NET_BIND_SERVICE"));
  }
  SUBCASE("not dumpable") {
    AttachFacts facts = refused_facts();
    facts.target->files_owner = 0;
    CHECK(blockers(facts) == Ids{"dumpable"});
  }
  SUBCASE("Yama 1 asks for an ancestor") {
    AttachFacts facts = refused_facts();
    facts.machine.yama_scope = 1;
    REQUIRE(blockers(facts) == Ids{"yama"});
    CHECK(holds(find(facts, "yama")->why, "ptrace_scope is 1"));
    facts.target->is_descendant = true;
    CHECK(blockers(facts) == Ids{"security-module"});
  }
  SUBCASE("Yama 2 asks for the capability") {
    AttachFacts facts = refused_facts();
    facts.machine.yama_scope = 2;
    facts.target->is_descendant = true;
    CHECK(blockers(facts) == Ids{"yama"});
    facts.target->access = Access::kPermitted;
    CHECK(blockers(facts).empty());
  }
  SUBCASE("Yama 3 stops everybody, root too") {
    AttachFacts facts = refused_facts();
    facts.machine.yama_scope = 3;
    facts.machine.self.capabilities_effective = kCapSysPtrace;
    REQUIRE(blockers(facts) == Ids{"yama"});
    CHECK(holds(find(facts, "yama")->remedy, "reboot"));
  }
  SUBCASE("another user namespace") {
    AttachFacts facts = refused_facts();
    facts.machine.self.capabilities_effective = kCapSysPtrace;
    facts.target->user_namespace = UserNamespace::kOther;
    CHECK(blockers(facts) == Ids{"user-namespace"});
    facts.target->user_namespace = UserNamespace::kBelow;
    CHECK(blockers(facts) == Ids{"security-module"});
  }
}

TEST_CASE("a security module is named when nothing else explains it") {
  AttachFacts facts = refused_facts();
  facts.machine.self.capabilities_effective = kCapSysPtrace;
  facts.machine.security_modules = "capability,landlock";
  CHECK(holds(find(facts, "security-module")->why, "capability,landlock"));

  facts.machine.own_label = "unconfined";
  facts.target->label = "docker-default (enforce)";
  CHECK(find(facts, "security-module")->what == "AppArmor refused");
  CHECK(holds(find(facts, "security-module")->why, "docker-default"));

  facts.machine.selinux_enforcing = true;
  CHECK(find(facts, "security-module")->what == "SELinux refused");

  facts.target->access = Access::kUnknown;
  CHECK(blockers(facts).empty());
  facts.machine.selinux_denies_ptrace = true;
  CHECK(find(facts, "security-module")->remedy == "sudo setsebool deny_ptrace off");
}

TEST_CASE("the remedy fits the place where heapsnap runs") {
  AttachFacts facts = refused_facts();
  facts.machine.self.uid = facts.machine.self.gid = {0, 0, 0, 0};
  facts.machine.here = {ContainerContext::Kind::kDocker, "0123456789ab"};
  CHECK(find(facts, "owner")->remedy ==
        "as root in this container: heapsnap attach 4711 (from outside: docker exec -it -u 0 "
        "0123456789ab heapsnap attach 4711)");
  facts.machine.self.capabilities_bounding = 0;
  CHECK(find(facts, "owner")->remedy ==
        "docker run --rm -it --cap-add SYS_PTRACE --pid=container:0123456789ab IMAGE heapsnap "
        "attach 4711");
  CHECK(holds(find(facts, "owner")->why, "root without CAP_SYS_PTRACE"));
  facts.machine.here = {ContainerContext::Kind::kKubernetes, "web-7f"};
  CHECK(find(facts, "owner")->remedy ==
        "kubectl debug -it web-7f --profile=general --target=CONTAINER --image=IMAGE -- heapsnap "
        "attach 4711");
}

TEST_CASE("a seccomp profile around heapsnap") {
  AttachFacts facts = easy_facts();
  facts.machine.self.seccomp = SeccompMode::kFilter;
  facts.machine.syscalls = {Availability::kAvailable, Availability::kBarred};
  facts.target->access = Access::kUnknown;
  CHECK(blockers(facts).empty());
  CHECK(find(facts, "own-seccomp")->severity == Severity::kDegrades);
  CHECK(holds(find(facts, "own-seccomp")->why, "/proc/PID/mem"));

  facts.machine.syscalls.ptrace = Availability::kBarred;
  facts.machine.here = {ContainerContext::Kind::kDocker, ""};
  REQUIRE(blockers(facts) == Ids{"own-seccomp"});
  CHECK(find(facts, "own-seccomp")->kind == ErrorKind::kNotPermitted);
  CHECK(holds(find(facts, "own-seccomp")->remedy, "--cap-add SYS_PTRACE"));
  CHECK(holds(find(facts, "own-seccomp")->remedy, "--pid=container:CONTAINER"));
}

TEST_CASE("another tracer is named") {
  AttachFacts facts = easy_facts();
  facts.target->status.tracer = 99;
  facts.target->tracer_name = "gdb";
  REQUIRE(blockers(facts) == Ids{"tracer"});
  CHECK(find(facts, "tracer")->what == "It is already traced by gdb 99");
  CHECK(find(facts, "tracer")->kind == ErrorKind::kNotPermitted);
}

TEST_CASE("programs that heapsnap does not walk") {
  AttachFacts facts = easy_facts();
  facts.target->elf_machine = EM_386;
  CHECK(blockers(facts) == Ids{"machine"});
  CHECK(find(facts, "machine")->kind == ErrorKind::kUnsupported);

  facts = easy_facts();
  facts.target->allocator.kind = AllocatorVerdict::Kind::kForeign;
  for (const char* name : {"musl", "jemalloc", "Go"}) {
    facts.target->allocator.name = name;
    CHECK(blockers(facts) == Ids{"allocator"});
    CHECK(find(facts, "allocator")->what.find(name) != std::string::npos);
  }
  facts.target->allocator.kind = AllocatorVerdict::Kind::kStaticGlibc;
  CHECK(blockers(facts).empty());
  facts.target->allocator.kind = AllocatorVerdict::Kind::kUnknown;
  CHECK(find(facts, "allocator")->severity == Severity::kNote);

  facts = easy_facts();
  facts.target->allocator.beside = {"jemalloc"};
  CHECK(find(facts, "allocator-beside")->severity == Severity::kDegrades);
  CHECK(find(facts, "allocator")->severity == Severity::kOk);
  facts.target->allocator.interposer = "/opt/libmine.so";
  CHECK(find(facts, "allocator")->severity == Severity::kDegrades);
  facts.target->allocator.file_deleted = true;
  CHECK(find(facts, "upgraded-libc").has_value());
}

TEST_CASE("the seccomp of the target") {
  AttachFacts facts = easy_facts();
  facts.target->status.seccomp = SeccompMode::kStrict;
  CHECK(find(facts, "target-seccomp")->severity == Severity::kDegrades);
  facts.target->status.seccomp = SeccompMode::kFilter;
  CHECK(find(facts, "target-seccomp")->severity == Severity::kDegrades);
  facts.machine.self.capabilities_effective = kCapSysAdmin;
  CHECK(find(facts, "target-seccomp")->severity == Severity::kNote);
  facts.machine.self.seccomp = SeccompMode::kFilter;
  CHECK(find(facts, "target-seccomp")->severity == Severity::kDegrades);
}

TEST_CASE("states of the target") {
  AttachFacts facts = easy_facts();
  facts.target->stuck_tid = 4712;
  CHECK(find(facts, "uninterruptible").has_value());
  facts.target->stuck_syscall = SYS_vfork;
  CHECK(find(facts, "vfork").has_value());
  CHECK_FALSE(find(facts, "uninterruptible").has_value());
  facts.target->limits.frozen = true;
  CHECK(find(facts, "frozen-cgroup")->severity == Severity::kDegrades);
  facts.target->stat.state = 'T';
  CHECK(find(facts, "stopped")->severity == Severity::kNote);
  CHECK(blockers(facts).empty());
}

TEST_CASE("room for a copy weighs more for a large target") {
  AttachFacts facts = easy_facts();
  facts.machine.memory.available = 1000;
  CHECK(find(facts, "memory")->severity == Severity::kDegrades);
  facts.target->status.rss = 8 << 20;
  CHECK(find(facts, "memory")->severity == Severity::kNote);
  facts.target->status.hugetlb = 1;
  facts.target->status.locked = 1;
  facts.target->status.shadow_stack = true;
  CHECK(find(facts, "huge-pages").has_value());
  CHECK(find(facts, "locked-memory").has_value());
  CHECK(find(facts, "shadow-stack").has_value());
}

TEST_CASE("namespaces and files that cannot be opened") {
  AttachFacts facts = easy_facts();
  facts.target->children_in_other_pid_namespace = true;
  CHECK(find(facts, "child-namespace")->severity == Severity::kDegrades);
  facts.target->other_pid_namespace = true;
  facts.target->status.namespace_pids = {4711, 1};
  CHECK(holds(find(facts, "namespaces")->why, "its PID inside is 1"));
  facts.target->page_map_readable = false;
  CHECK(find(facts, "page-map")->severity == Severity::kDegrades);
  facts.target->memory_file_readable = false;
  CHECK(blockers(facts) == Ids{"memory-file"});
  CHECK_FALSE(find(facts, "page-map").has_value());
}

TEST_CASE("a kernel on which no copy is made") {
  AttachFacts facts = easy_facts();
  CHECK_FALSE(find(facts, "kernel-copy").has_value());
  facts.machine.kernel = {5, 9};
  CHECK_FALSE(find(facts, "kernel-copy").has_value());
  CHECK(find(facts, "memory").has_value());
  facts.machine.kernel = {4, 14};
  facts.target->status.rss = 1 << 20;
  CHECK(find(facts, "kernel-copy")->severity == Severity::kNote);
  CHECK_FALSE(find(facts, "memory").has_value());  // nothing is copied that could take any
  facts.target->status.rss = uint64_t{1} << 30;
  CHECK(find(facts, "kernel-copy")->severity == Severity::kDegrades);
  CHECK(holds(find(facts, "kernel-copy")->why, "0.3 s per GB"));
  facts.target.reset();
  CHECK(find(facts, "kernel-copy")->severity == Severity::kNote);
  facts.machine.kernel = {};  // not known
  CHECK_FALSE(find(facts, "kernel-copy").has_value());
}

TEST_CASE("the machine alone") {
  AttachFacts facts = easy_facts();
  facts.target.reset();
  CHECK(find(facts, "capabilities")->severity == Severity::kDegrades);
  CHECK(find(facts, "capabilities")->remedy == "sudo heapsnap attach PID");
  facts.machine.yama_scope = 1;
  CHECK(find(facts, "yama")->severity == Severity::kDegrades);
  facts.machine.yama_scope = 3;
  CHECK(blockers(facts) == Ids{"yama"});
  facts.machine.yama_scope = 0;
  facts.machine.self.capabilities_effective = kCapSysPtrace;
  CHECK(find(facts, "permission")->severity == Severity::kOk);
  facts.machine.kernel = {3, 2};
  CHECK(blockers(facts) == Ids{"kernel"});
  facts.machine.kernel = {6, 1};
  CHECK(find(facts, "page-map")->severity == Severity::kNote);
}

TEST_CASE("a refusal becomes an error with cause and remedy") {
  AttachFacts facts = refused_facts();
  facts.machine.yama_scope = 1;
  const Error yama = explained_refusal(facts, EPERM);
  CHECK(yama.kind() == ErrorKind::kNotPermitted);
  CHECK(yama.subject() == "cannot attach to process 4711");
  CHECK(holds(yama.why(), "Yama"));
  CHECK(yama.remedy() == "sudo heapsnap attach 4711");

  facts = easy_facts();
  facts.target->presence = Presence::kAbsent;
  CHECK(explained_refusal(facts, ESRCH).kind() == ErrorKind::kNoProcess);

  // Nothing shows any more: what the kernel said is all there is.
  facts = easy_facts();
  CHECK(explained_refusal(facts, ESRCH).kind() == ErrorKind::kNoProcess);
  CHECK(explained_refusal(facts, EPERM).kind() == ErrorKind::kNotPermitted);
  CHECK(holds(explained_refusal(facts, EPERM).why(), "EPERM"));
  CHECK(holds(explained_refusal(facts, EIO).why(), "EIO"));
  // An allocator that we do not walk is no reason for the kernel to refuse.
  facts.target->allocator.kind = AllocatorVerdict::Kind::kForeign;
  CHECK(explained_refusal(facts, EPERM).kind() == ErrorKind::kNotPermitted);
}

TEST_CASE("what else came of a refusal is told with its cause") {
  TargetRefusal refusal(::getpid(), EPERM);
  refusal.set_remark("a copy remains");
  CHECK(explained(refusal).remark() == "a copy remains");
}
