#include "store/kept_snapshots.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/error.h"
#include "store/store_folder.h"
#include "tests/unit/temporary_folder.h"

using namespace heapsnap;
using heapsnap::test::TemporaryFolder;

namespace {

struct KeptFixture {
  TemporaryFolder folder;
  KeptSnapshots kept;

  explicit KeptFixture(uint64_t count) : kept(folder.path(), count) {}

  std::vector<std::string> add(const std::string& name) {
    folder.write(name, "a snapshot called " + name);
    return kept.add(name);
  }
  std::vector<std::string> names() const { return names_in(open_store(folder.path()).get()); }
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("the newest files stay, and what was there before") {
  KeptFixture store(2);
  store.folder.write("a.0.hsnap", "somebody else's");
  for (const char* name : {"a.3.hsnap", "a.1.hsnap", "a.2.hsnap"}) {
    CHECK(store.add(name).empty());
  }
  // The order of writing counts, not that of names.
  CHECK(store.names() == Names{"a.0.hsnap", "a.1.hsnap", "a.2.hsnap"});
  CHECK(store.add("a.4.hsnap").empty());
  CHECK(store.names() == Names{"a.0.hsnap", "a.2.hsnap", "a.4.hsnap"});
}

TEST_CASE("without a count all stay") {
  KeptFixture store(0);
  for (const char* name : {"1", "2", "3"}) CHECK(store.add(name).empty());
  CHECK(store.names() == Names{"1", "2", "3"});
}

TEST_CASE("a file that was replaced, changed or made a link of is left alone, and told once") {
  KeptFixture store(1);
  REQUIRE(store.add("1").empty());
  const auto left_alone = [&](const char* next) {
    const auto told = store.add(next);
    return told.size() == 1 && told.front().find("/1 was not removed") != std::string::npos;
  };
  SUBCASE("another file under its name") {
    std::filesystem::rename(store.folder.at("1"), store.folder.at("moved"));
    store.folder.write("1", "a snapshot called 1");
    CHECK(left_alone("2"));
    CHECK(store.names() == Names{"1", "2", "moved"});
  }
  SUBCASE("other bytes in it") {
    store.folder.write("1", "notes");
    CHECK(left_alone("2"));
    CHECK(store.names() == Names{"1", "2"});
  }
  SUBCASE("a link to it") {
    std::filesystem::rename(store.folder.at("1"), store.folder.at("moved"));
    std::filesystem::create_symlink("moved", store.folder.at("1"));
    CHECK(left_alone("2"));
    CHECK(store.names() == Names{"1", "2", "moved"});
  }
  CHECK(store.add("3").empty());  // 2 goes; 1 is forgotten
}

TEST_CASE("a file that is gone already is none too many") {
  KeptFixture store(1);
  REQUIRE(store.add("1").empty());
  std::filesystem::remove(store.folder.at("1"));
  CHECK(store.add("2").empty());
  CHECK(store.names() == Names{"2"});
}

TEST_CASE("a folder that is not there is refused at the begin") {
  const TemporaryFolder folder;
  try {
    KeptSnapshots(folder.at("none"), 1);
    FAIL("it was taken");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kOutput);
    CHECK(error.remedy() == "create the folder first");
  }
}
