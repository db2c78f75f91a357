#include "store/store_folder.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "snapshot/snapshot_writer.h"
#include "tests/unit/temporary_folder.h"

using namespace heapsnap;
using heapsnap::test::TemporaryFolder;

namespace {

const SnapshotName kName{1769903999, 4711};
const std::string kPlace = "host/web/" + to_text(kName);

void write_snapshot(const std::string& path, const std::string& place, int pid = 4711) {
  SnapshotMetadata metadata;
  metadata.process.pid = pid;
  metadata.process.rss = 1234;
  if (!place.empty()) metadata.collection = Collection{place};
  SnapshotWriter(SnapshotOutput{path, false}).finish(metadata);
}

UniqueFd open_at(const TemporaryFolder& folder) {
  return open_store(folder.path());
}

}  // namespace

TEST_CASE("a snapshot that collect wrote is known by what it says of itself") {
  const TemporaryFolder folder;
  write_snapshot(folder.at(to_text(kName)), kPlace);
  const UniqueFd open = open_at(folder);
  CHECK(snapshot_names_in(open.get()) == std::vector{kName});
  const StoredSnapshot snapshot = read_stored_snapshot(open.get(), kName, "x");
  CHECK(snapshot.facts.process.rss == 1234);
  CHECK(why_foreign(snapshot, kPlace) == "");
  CHECK(why_foreign(snapshot, "host/other/" + to_text(kName)) != "");
  CHECK(remove_snapshot(open.get(), snapshot) == "");
  CHECK(names_in(open.get()).empty());
  CHECK(remove_snapshot(open.get(), snapshot) == "");  // gone already
}

TEST_CASE("snapshots of other commands and of other processes are not collect's") {
  const TemporaryFolder folder;
  const UniqueFd open = open_at(folder);
  write_snapshot(folder.at(to_text(kName)), "");
  CHECK(why_foreign(read_stored_snapshot(open.get(), kName, "x"), kPlace) != "");
  std::filesystem::remove(folder.at(to_text(kName)));
  write_snapshot(folder.at(to_text(kName)), kPlace, 4712);
  CHECK(why_foreign(read_stored_snapshot(open.get(), kName, "x"), kPlace) != "");
}

TEST_CASE("what is no snapshot is not read, and links are not followed") {
  const TemporaryFolder folder;
  const UniqueFd open = open_at(folder);
  const std::string path = folder.at(to_text(kName));
  const auto is_refused = [&] {
    try {
      read_stored_snapshot(open.get(), kName, "x");
      return false;
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kBadInput;
    }
  };
  std::ofstream(path) << "somebody's notes";
  CHECK(is_refused());
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  CHECK(is_refused());
  std::filesystem::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(is_refused());
  std::filesystem::remove(path);
  write_snapshot(folder.at("elsewhere"), kPlace);
  std::filesystem::create_symlink(folder.at("elsewhere"), path);
  CHECK(is_refused());
}

TEST_CASE("a file that took the place of one that was read stays") {
  const TemporaryFolder folder;
  const UniqueFd open = open_at(folder);
  write_snapshot(folder.at(to_text(kName)), kPlace);
  const StoredSnapshot snapshot = read_stored_snapshot(open.get(), kName, "x");
  std::filesystem::rename(folder.at(to_text(kName)), folder.at("moved"));
  std::ofstream(folder.at(to_text(kName))) << "another";
  CHECK(remove_snapshot(open.get(), snapshot) != "");
  CHECK(names_in(open.get()).size() == 2);
}

TEST_CASE("temporary files of writers that were killed go, those of others stay") {
  const TemporaryFolder folder;
  const UniqueFd open = open_at(folder);
  const std::string left = ".heapsnap-0123456789abcdef.tmp";
  std::ofstream(folder.at(left)) << "half";
  std::ofstream(folder.at(".heapsnap-0123456789abcde.tmp")) << "a digit too few";
  std::ofstream(folder.at("notes.tmp")) << "somebody's";
  const UniqueFd written(
      ::open(folder.at(".heapsnap-00000000000000aa.tmp").c_str(), O_WRONLY | O_CREAT, 0600));
  CHECK(remove_left_temporaries(open.get()) == 1);
  CHECK(!std::filesystem::exists(folder.at(left)));
  CHECK(names_in(open.get()).size() == 3);
}

TEST_CASE("a link in the place of a folder is no folder") {
  const TemporaryFolder folder;
  const UniqueFd open = open_at(folder);
  std::filesystem::create_directory(folder.at("elsewhere"));
  std::filesystem::create_directory_symlink(folder.at("elsewhere"), folder.at("web"));
  CHECK(!open_folder(open.get(), "web"));
  CHECK_THROWS_AS(make_folder(open.get(), "web", "x"), Error);
  CHECK(make_folder(open.get(), "db", "x").is_open());
  struct stat status {};
  REQUIRE(::stat(folder.at("db").c_str(), &status) == 0);
  CHECK((status.st_mode & 07) == 0);
}
