#include "tools/push/profile_address.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace heapsnap;

namespace {

SnapshotMetadata sample_metadata() {
  SnapshotMetadata metadata;
  metadata.process.comm = "nginx";
  metadata.process.hostname = "web1";
  metadata.process.pid = 42;
  return metadata;
}

}  // namespace

TEST_CASE("a profile is called like the process, or like the target of collect") {
  SnapshotMetadata metadata = sample_metadata();
  CHECK(to_text(profile_name(metadata, "", {})) == "nginx{host=web1,pid=42}");
  metadata.collection = Collection{"web1/front/20260131T235959Z-42.hsnap"};
  metadata.process.build_id = "ab12";
  CHECK(to_text(profile_name(metadata, "", {})) == "front{host=web1,pid=42,build_id=ab12}");
  CHECK(to_text(profile_name(metadata, "shop", {{"pid", ""}, {"zone", "a"}})) ==
        "shop{host=web1,build_id=ab12,zone=a}");
}

TEST_CASE("no text of the process ends a label or adds one") {
  SnapshotMetadata metadata = sample_metadata();
  metadata.process.comm = "a{b=c}\n";
  metadata.process.hostname = "x,pid=1}\"\x7f";
  CHECK(to_text(profile_name(metadata, "", {})) == "a_b_c__{host=x_pid_1___,pid=42}");
}

TEST_CASE("labels are KEY=VALUE") {
  CHECK(parse_label("a.b_c=x=y") == std::pair<std::string, std::string>{"a.b_c", "x=y"});
  for (const char* text : {"", "=x", "a", "1a=x", "a-b=x", "a b=x"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_label(text), Error);
  }
}

TEST_CASE("the address has the name, the time and the format") {
  const ProfileName name{"nginx", {{"host", "web1"}}};
  const std::string query =
      "/ingest?name=nginx%7Bhost%3Dweb1%7D&from=1769903999&until=1769904000&format=pprof&spyName="
      "heapsnap";
  CHECK(ingest_url("http://p:4040", name, 1769903999123456789) == "http://p:4040" + query);
  CHECK(ingest_url("https://p/base/", name, 1769903999123456789) == "https://p/base" + query);
}

TEST_CASE("an address that is none, or has a password in it, is refused") {
  for (const char* text :
       {"", "p:4040", "ftp://p", "file:///etc/passwd", "http://", "http://user:secret@p",
        "http://p?x=y", "http://p#x", "http://p q", "http://p\n"}) {
    CAPTURE(text);
    try {
      ingest_url(text, {}, 0);
      FAIL("taken");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUsage);
      CHECK(std::string(error.what()).find("secret") == std::string::npos);
    }
  }
}
