#include "tools/collect/target_finder.h"

#include <doctest/doctest.h>

#include <fstream>

#include "platform/linux/freeze/copy_reaper.h"
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

TEST_CASE("not the copy that another heapsnap has made of a target") {
  std::vector<ListedProcess> with_copy = processes();
  with_copy.push_back({40, kCopyName, 40, "/usr/sbin/nginx", {"/system.slice/nginx.service"}});
  for (const TargetRule& rule :
       {rule_of(&TargetRule::process, "nginx"), rule_of(&TargetRule::unit, "nginx.service")}) {
    const TargetMatch match = match_target(rule, with_copy);
    REQUIRE(match.processes.size() == 2);
    CHECK(match.processes.front().pid == 100);
  }
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
}

TEST_CASE("a user's unit and a container's do not pass for the system's") {
  const TargetRule rule = rule_of(&TargetRule::unit, "nginx.service");
  std::vector<ListedProcess> all = {
      {10,
       "nginx",
       1,
       "",
       {"/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service"}},
      {11, "nginx", 2, "", {"/docker/" + kId + "/system.slice/nginx.service"}},
      {12, "nginx", 3, "", {"/lxc.payload.web/system.slice/nginx.service"}}};
  CHECK(match_target(rule, all).processes.size() == 3);
  all.push_back({13, "nginx", 4, "", {"/", "/web.slice/web-own.slice/nginx.service/worker"}});
  const TargetMatch match = match_target(rule, all);
  REQUIRE(match.processes.size() == 1);
  CHECK(match.processes.front().pid == 13);
}

TEST_CASE("a container and a pod that others are like") {
  const std::string twin = "3f2affff" + kId.substr(8);
  const std::string uid = "8d2f6a1e_4b7c_4f0a_9c3d_5e6f708192a3";
  const std::vector<ListedProcess> all = {
      {10, "conmon", 1, "", {"/machine.slice/libpod-conmon-" + kId + ".scope"}},
      {11, "node", 2, "", {"/machine.slice/libpod-" + kId + ".scope"}},
      {12, "node", 3, "", {"/kubepods.slice/kubepods-pod" + uid + ".slice/crio-" + twin}}};
  const TargetMatch match = match_target(rule_of(&TargetRule::container, kId), all);
  REQUIRE(match.processes.size() == 1);
  CHECK(match.processes.front().pid == 11);
  const TargetMatch several = match_target(rule_of(&TargetRule::container, "3f2a"), all);
  CHECK(several.processes.empty());
  CHECK(several.why_none == "2 containers have an id that begins with 3f2a");
  TargetRule rule = rule_of(&TargetRule::pod, "8d2f6a1e4b7c4f0a9c3d5e6f708192a3");
  CHECK(match_target(rule, all).processes.size() == 1);
  CHECK(match_target(rule, {}).why_none ==
        "no process in pod 8d2f6a1e-4b7c-4f0a-9c3d-5e6f708192a3 runs");
  rule.process = "conmon";
  CHECK(match_target(rule, all).processes.empty());
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
