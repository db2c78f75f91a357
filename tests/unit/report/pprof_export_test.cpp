#include "report/pprof_export.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <map>
#include <string>
#include <vector>

#include <protozero/pbf_reader.hpp>

#include "tests/unit/report/sample_stacks.h"

using namespace heapsnap;

namespace {

std::string unpacked(const std::string& gzip) {
  std::string bytes(1 << 20, '\0');
  z_stream zlib{};
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(gzip.data()));
  zlib.avail_in = static_cast<uInt>(gzip.size());
  zlib.next_out = reinterpret_cast<Bytef*>(bytes.data());
  zlib.avail_out = static_cast<uInt>(bytes.size());
  REQUIRE(inflateInit2(&zlib, MAX_WBITS + 16) == Z_OK);
  REQUIRE(inflate(&zlib, Z_FINISH) == Z_STREAM_END);
  REQUIRE(zlib.avail_in == 0);
  bytes.resize(zlib.total_out);
  inflateEnd(&zlib);
  return bytes;
}

// A profile as a reader has it.
struct Profile {
  std::vector<std::string> types;
  std::vector<std::pair<std::vector<std::string>, std::vector<int64_t>>> samples;
  std::vector<std::string> files;  // of mappings
  int64_t time = 0;
  int64_t period = 0;
  std::string preferred;

  explicit Profile(const std::string& gzip) {
    const std::string bytes = unpacked(gzip);
    std::vector<std::string> texts;
    std::map<uint64_t, int64_t> function_names;
    std::map<uint64_t, std::string> locations;
    for (protozero::pbf_reader all(bytes); all.next(6);) texts.push_back(all.get_string());
    REQUIRE(texts.at(0).empty());
    for (protozero::pbf_reader all(bytes); all.next(5);) {
      protozero::pbf_reader function = all.get_message();
      REQUIRE(function.next(1));
      const uint64_t id = function.get_uint64();
      REQUIRE(function.next(2));
      function_names[id] = function.get_int64();
    }
    for (protozero::pbf_reader all(bytes); all.next(4);)
      add_location(all.get_message(), texts, function_names, locations);
    for (protozero::pbf_reader all(bytes); all.next();) {
      switch (all.tag()) {
        case 1: {
          protozero::pbf_reader type = all.get_message();
          REQUIRE(type.next(1));
          types.push_back(texts.at(static_cast<size_t>(type.get_int64())));
          break;
        }
        case 2: add_sample(all.get_message(), locations); break;
        case 3: {
          protozero::pbf_reader mapping = all.get_message();
          REQUIRE(mapping.next(5));
          files.push_back(texts.at(static_cast<size_t>(mapping.get_int64())));
          break;
        }
        case 9: time = all.get_int64(); break;
        case 12: period = all.get_int64(); break;
        case 14: preferred = texts.at(static_cast<size_t>(all.get_int64())); break;
        default: all.skip();
      }
    }
  }

 private:
  static void add_location(protozero::pbf_reader location, const std::vector<std::string>& texts,
                           const std::map<uint64_t, int64_t>& functions,
                           std::map<uint64_t, std::string>& locations) {
    uint64_t id = 0;
    std::string name;
    while (location.next()) {
      if (location.tag() == 1) {
        id = location.get_uint64();
      } else if (location.tag() == 4) {
        protozero::pbf_reader line = location.get_message();
        REQUIRE(line.next(1));
        name += (name.empty() ? "" : " < ") +
                texts.at(static_cast<size_t>(functions.at(line.get_uint64())));
      } else {
        location.skip();
      }
    }
    locations[id] = name;
  }

  void add_sample(protozero::pbf_reader sample, const std::map<uint64_t, std::string>& locations) {
    auto& [frames, values] = samples.emplace_back();
    while (sample.next()) {
      if (sample.tag() == 1) {
        for (const uint64_t id : sample.get_packed_uint64()) frames.push_back(locations.at(id));
      } else {
        for (const int64_t value : sample.get_packed_int64()) values.push_back(value);
      }
    }
  }
};

Profile exported(const test::SampleStacks& sample, PprofValues values) {
  std::string gzip;
  Writer out(gzip);
  export_pprof(sample.metadata, sample.recorded, sample.census, values, out);
  out.flush();
  return Profile(gzip);
}

}  // namespace

TEST_CASE("each stack that allocated is a sample with its frames, innermost first") {
  test::SampleStacks sample;
  sample.metadata.process.taken_at_ns = 1769903999123456789;
  const Profile profile = exported(sample, PprofValues::kAll);
  CHECK(profile.types ==
        std::vector<std::string>{"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"});
  CHECK(profile.preferred == "inuse_space");
  CHECK(profile.time == 1769903999123456789);
  CHECK(profile.period == 1);
  CHECK(profile.files == std::vector<std::string>{"/opt/tree"});
  REQUIRE(profile.samples.size() == 2);
  CHECK(profile.samples[0].first ==
        std::vector<std::string>{"fill(Node*) < make_node(int)", "main\\x1b[31m"});
  CHECK(profile.samples[0].second == std::vector<int64_t>{90, 9000, 64, 6400});
  CHECK(profile.samples[1].first == std::vector<std::string>{"tree+0x2222", "0x7f0000001234"});
  CHECK(profile.samples[1].second == std::vector<int64_t>{1, 100, 1, 100});
}

TEST_CASE("what is in use alone leaves out stacks without blocks") {
  test::SampleStacks sample;
  sample.census.stacks[3] = {};
  const Profile profile = exported(sample, PprofValues::kInUse);
  CHECK(profile.types == std::vector<std::string>{"inuse_objects", "inuse_space"});
  REQUIRE(profile.samples.size() == 1);
  CHECK(profile.samples[0].second == std::vector<int64_t>{64, 6400});
}

TEST_CASE("estimates are rounded, and names are printable") {
  test::SampleStacks sample;
  sample.census.stacks[2] = {3, 2.5, 1e300};
  sample.metadata.tracker->modules[0].path = "/opt/\xff";
  const Profile profile = exported(sample, PprofValues::kInUse);
  CHECK(profile.samples[0].second == std::vector<int64_t>{3, 9'000'000'000'000'000'000});
  CHECK(profile.files == std::vector<std::string>{"/opt/\\xff"});
}
