#include "tools/collect/target_finder.h"

#include <doctest/doctest.h>

#include <fstream>

#include "tests/unit/temporary_folder.h"

using namespace heapsnap;

namespace {

const std::string kId = "3f2a8c91d0b4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e";

std::vector<ListedProcess> processes() {
  return {{100, "nginx", 50, "/usr/sbin/nginx", {"/system.slice/nginx.service"}},
          {90, "nginx", 70, "/usr/sbin/nginx (deleted)", {"/system.slice/nginx.service"}},
          {300,
           "postmaster",
           60,
           "/usr/lib/postgresql/15/bin/postgres",
           {"/system.slice/system-postgresql.slice/postgresql@15-main.service"}},
          {400, "node", 80, "/usr/bin/node", {"/system.slice/docker-" + kId + ".scope"}}};
}

std::vector<int> pids(const TargetRule& rule) {
  std::vector<int> found;
  const TargetMatch match = match_target(rule, processes());
  for (const ListedProcess& process : match.processes) found.push_back(process.pid);
  CHECK(found.empty() == !match.why_none.empty());
  return found;
}

TargetRule rule_of(std::string TargetRule::*key, const std::string& value) {
  TargetRule rule;
  rule.*key = value;
  return rule;
}

}  // namespace

TEST_CASE("by name, of the thread or the program, the oldest first") {
  CHECK(pids(rule_of(&TargetRule::process, "nginx")) == std::vector{100, 90});
  CHECK(pids(rule_of(&TargetRule::process, "postgres")) == std::vector{300});
  CHECK(pids(rule_of(&TargetRule::process, "postmaster")) == std::vector{300});
  CHECK(pids(rule_of(&TargetRule::process, "/usr/sbin/nginx")) == std::vector{100});
  CHECK(pids(rule_of(&TargetRule::process, "ngin")).empty());
}

TEST_CASE("by unit, control group and container") {
  CHECK(pids(rule_of(&TargetRule::unit, "nginx.service")) == std::vector{100, 90});
  CHECK(pids(rule_of(&TargetRule::unit, "postgresql@15-main.service")) == std::vector{300});
  CHECK(pids(rule_of(&TargetRule::unit, "slice")).empty());
  CHECK(pids(rule_of(&TargetRule::cgroup, "/system.slice")).size() == 4);
  CHECK(pids(rule_of(&TargetRule::cgroup, "/system.slice/ngin")).empty());
  CHECK(pids(rule_of(&TargetRule::cgroup, "/")).size() == 4);
  CHECK(pids(rule_of(&TargetRule::container, "3f2a8c91")) == std::vector{400});
  CHECK(pids(rule_of(&TargetRule::container, "2a8c91")).empty());
  CHECK(is_of_container("/kubepods/besteffort/pod1/" + kId, "3f2a"));
  CHECK(is_of_container("/x/cri-containerd-" + kId + ".scope/y", "3f2a"));
  CHECK(!is_of_container("/x/3f2a8c91.service", "3f2a"));
}

TEST_CASE("all that is given must hold") {
  TargetRule rule = rule_of(&TargetRule::cgroup, "/system.slice");
  rule.process = "node";
  CHECK(pids(rule) == std::vector{400});
  rule.unit = "nginx.service";
  CHECK(pids(rule).empty());
}

TEST_CASE("by pid file") {
  const heapsnap::test::TemporaryFolder folder;
  TargetRule rule = rule_of(&TargetRule::pid_file, folder.at("x.pid"));
  CHECK(pids(rule).empty());
  std::ofstream(rule.pid_file) << "300\n/var/lib/postgresql\n";  // as PostgreSQL writes it
  CHECK(pids(rule) == std::vector{300});
  rule.process = "nginx";  // the pid is another program's by now
  CHECK(pids(rule).empty());
  for (const char* text : {"", "x", "-1", "0", "99999999999999999999", "301"}) {
    std::ofstream(rule.pid_file) << text;
    CHECK(pids(rule).empty());
  }
}
