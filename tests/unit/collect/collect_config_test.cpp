#include "tools/collect/collect_config.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace heapsnap;

namespace {

constexpr const char* kTarget = "[[target]]\nname = \"web\"\nprocess = \"nginx\"\n";

std::string error_of(const std::string& text) {
  try {
    parse_collect_config(text, "c.toml");
    return "";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kUsage);
    CHECK(error.remedy() != "");
    return error.subject() + " " + error.why();
  }
}

}  // namespace

TEST_CASE("every key") {
  const CollectConfig config = parse_collect_config(R"(
store = "/srv/heapsnap"
lock = "/run/lock/x"
jitter = "30s"
keep = { last = 24, hourly = 48, daily = 14, weekly = 8, max_bytes = "5GiB", max_age = "90d" }
skip = { memory_below = "256MiB", disk_below = "10%", memory_pressure_over = "10%", io_pressure_over = "30%", cpu_pressure_over = "90%" }
[[target]]
name = "web"
process = "nginx"
unit = "nginx"
all = true
optional = true
when = { rss_over = "500MiB", grown_by = "10%", every = "10m" }
min_interval = "1m"
references = "yes"
timeout = "90s"
cpu = "1500ms"
[[target]]
name = "db"
pid_file = "/run/db.pid"
when = { grown_by = "64MiB" }
[[target]]
name = "box"
container = "3f2a8c91"
[[target]]
name = "group"
cgroup = "system.slice/x.service/"
)",
                                                    "c.toml");
  CHECK(config.store == "/srv/heapsnap");
  CHECK(config.lock == "/run/lock/x");
  CHECK(config.jitter == std::chrono::seconds(30));
  CHECK(config.keep.last == 24);
  CHECK(config.keep.hourly == 48);
  CHECK(config.keep.daily == 14);
  CHECK(config.keep.weekly == 8);
  CHECK(config.keep.max_bytes == uint64_t{5} << 30);
  CHECK(config.keep.max_age_s == 90 * 86400);
  CHECK(config.skip.memory_below.of(1) == 256U << 20);
  CHECK(config.skip.disk_below.of(1000) == 100);
  CHECK(config.skip.memory_pressure_over == 10);
  CHECK(config.skip.io_pressure_over == 30);
  CHECK(config.skip.cpu_pressure_over == 90);
  REQUIRE(config.targets.size() == 4);
  const TargetRule& web = config.targets[0];
  CHECK(web.unit == "nginx.service");
  CHECK(web.all);
  CHECK(web.optional);
  CHECK(web.when.rss_over == 500U << 20);
  CHECK(web.when.grown_by_percent == 10);
  CHECK(web.when.every_s == 600);
  CHECK(web.when.min_interval_s == 60);
  CHECK(web.references == CaptureChoice::kYes);
  CHECK(config.targets[1].references == CaptureChoice::kAuto);
  CHECK(web.timeout == std::chrono::seconds(90));
  CHECK(web.cpu == std::chrono::milliseconds(1500));
  CHECK(config.targets[1].when.grown_by_bytes == 64U << 20);
  CHECK(!config.targets[1].when.grown_by_percent);
  CHECK(config.targets[2].container == "3f2a8c91");
  CHECK(config.targets[3].cgroup == "/system.slice/x.service");
}

TEST_CASE("memory and disk may be short without limit") {
  for (const char* none : {"0", "\"0%\"", "\"0.0%\""}) {
    CAPTURE(none);
    const std::string text = std::string("skip = { memory_below = ") + none +
                             ", disk_below = " + none + " }\n" + kTarget;
    const CollectConfig config = parse_collect_config(text, "c.toml");
    CHECK(config.skip.memory_below.of(1000) == 0);
    CHECK(config.skip.disk_below.of(1000) == 0);
  }
}

TEST_CASE("what is wrong is said with its line") {
  CHECK(error_of(kTarget) == "");
  CHECK(error_of("stor = \"/x\"\n" + std::string(kTarget)) ==
        "c.toml:1 there is no key \"stor\" at the top");
  CHECK(error_of(std::string(kTarget) + "proces = \"x\"\n") ==
        "c.toml:4 there is no key \"proces\" in a target");
  CHECK(error_of(std::string(kTarget) + "when = { evry = \"1m\" }\n") ==
        "c.toml:4 there is no key \"evry\" in when");
  CHECK(error_of("keep = { lasst = 3 }\n" + std::string(kTarget)) ==
        "c.toml:1 there is no key \"lasst\" in keep");
  CHECK(error_of("store = 7\n" + std::string(kTarget)) ==
        "c.toml:1 the value of store is not a text");
  CHECK(error_of("store = \"here\"\n" + std::string(kTarget)) ==
        "c.toml:1 the value of store is not an absolute path");
  // Those who collect from other folders would not meet at it.
  CHECK(error_of("lock = \"here\"\n" + std::string(kTarget)) ==
        "c.toml:1 the value of lock is not an absolute path");
  CHECK(error_of("jitter = \"soon\"\n" + std::string(kTarget)) ==
        "c.toml:1 the value of jitter is not a time");
  CHECK(error_of("keep = { last = 0 }\n" + std::string(kTarget)) ==
        "c.toml:1 the value of last is not a number above 0");
  CHECK(error_of("keep = { max_bytes = \"much\" }\n" + std::string(kTarget)) ==
        "c.toml:1 the value of max_bytes is not a size");
  CHECK(error_of("skip = { io_pressure_over = \"120%\" }\n" + std::string(kTarget)) ==
        "c.toml:1 the value of io_pressure_over is not a share of 100 at most");
  CHECK(error_of("skip = { memory_below = \"much\" }\n" + std::string(kTarget)) ==
        "c.toml:1 the value of memory_below is not a share or a size");
  CHECK(error_of("skip = { memory_below = \"-1%\" }\n" + std::string(kTarget)) ==
        "c.toml:1 the value of memory_below is not a share or a size");
  CHECK(error_of(std::string(kTarget) + "when = { grown_by = \"0%\" }\n") ==
        "c.toml:4 the value of grown_by is not a share or a size above 0");
  CHECK(error_of(std::string(kTarget) + "all = 1\n") ==
        "c.toml:4 the value of all is not true or false");
  CHECK(error_of(std::string(kTarget) + "references = \"always\"\n") ==
        "c.toml:4 the value of references is not auto, yes or no");
  CHECK(error_of(std::string(kTarget) + "when = 3\n") ==
        "c.toml:4 the value of when is not a table");
  CHECK(error_of("\n\nstore = \n").starts_with("c.toml:3 "));
}

TEST_CASE("targets have a name of their own and name a process") {
  const CollectConfig none = parse_collect_config("store = \"/x\"\n", "c.toml");
  CHECK(none.targets.empty());
  CHECK_THROWS_WITH_AS(require_targets(none), "c.toml: it names no target", Error);
  CHECK(error_of("stor = \"/x\"\n") == "c.toml:1 there is no key \"stor\" at the top");
  CHECK(error_of("target = 5\n") == "c.toml:1 it names no target");
  CHECK(error_of("[[target]]\nprocess = \"x\"\n") == "c.toml:1 a target without a name");
  CHECK(error_of("[[target]]\nname = \"../x\"\nprocess = \"x\"\n") ==
        "c.toml:2 \"../x\" cannot be the name of a folder");
  CHECK(error_of("[[target]]\nname = \"x\"\n") == "c.toml:1 target x names no process");
  CHECK(error_of(std::string(kTarget) + kTarget) == "c.toml:4 a second target with the name web");
  CHECK(error_of("[[target]]\nname = \"x\"\ncontainer = \"web\"\n").starts_with("c.toml:3 "));
  CHECK(error_of("[[target]]\nname = \"x\"\ncontainer = \"3f2\"\n").starts_with("c.toml:3 "));
}
