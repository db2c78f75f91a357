#include "tracker/unwind_rows.h"

#include <doctest/doctest.h>
#include <link.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tracker/table_space.h"

using namespace heapsnap::tracker;

// starting.cpp lists the hooks, which would replace this program's malloc.
namespace heapsnap::tracker {
void publish_hooks() {}
}  // namespace heapsnap::tracker

namespace {

struct Module {
  std::string path;
  uint64_t bias = 0, begin = ~0ULL, end = 0, header = 0;
};

Module find_module(const char* part) {
  struct Search {
    const char* part;
    Module found;
  } search{part, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* context) {
        auto& search = *static_cast<Search*>(context);
        if (strstr(info->dlpi_name, search.part) == nullptr) return 0;
        Module& module = search.found;
        module.path = info->dlpi_name;
        module.bias = info->dlpi_addr;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          const uint64_t begin = info->dlpi_addr + segment.p_vaddr;
          if (segment.p_type == PT_LOAD) {
            if (begin < module.begin) module.begin = begin & ~0xfffULL;
            if (begin + segment.p_memsz > module.end) module.end = begin + segment.p_memsz;
          }
          if (segment.p_type == PT_GNU_EH_FRAME) module.header = begin;
        }
        return 1;
      },
      &search);
  return search.found;
}

void need_tables() {
  if (control.directory == nullptr) REQUIRE(create_tables(-1));
}

// One row of "readelf --debug-dump=frames-interp": the address, the CFA and what it says of rbp and
// ra.
struct Line {
  uint64_t address;
  std::string cfa, rbp, ra;
};

// The second of readelf's columns is always the CFA and the last the return address.
std::vector<Line> readelf_rows(const std::string& path) {
  std::vector<Line> lines;
  FILE* pipe = popen(("readelf --debug-dump=frames-interp " + path + " 2>/dev/null").c_str(), "r");
  REQUIRE(pipe != nullptr);
  char text[512];
  std::vector<std::string> heads;
  while (fgets(text, sizeof text, pipe) != nullptr) {
    std::vector<std::string> words;
    for (char* word = strtok(text, " \n"); word != nullptr; word = strtok(nullptr, " \n"))
      words.emplace_back(word);
    if (!words.empty() && words[0] == "LOC") {
      heads = words;
    } else if (words.size() >= 2 && words.size() == heads.size() && words[0].size() == 16) {
      Line line{std::stoull(words[0], nullptr, 16), words[1], "", ""};
      for (size_t i = 2; i < words.size(); ++i) {
        if (heads[i] == "rbp") line.rbp = words[i];
        if (heads[i] == "ra") line.ra = words[i];
      }
      if (line.address != 0) lines.push_back(line);  // 0: of a CIE, which is no function
    } else {
      heads.clear();
    }
  }
  pclose(pipe);
  return lines;
}

std::string as_readelf(UnwindRule rule) {
  const std::string offset =
      (rule.cfa_offset() >= 0 ? "+" : "") + std::to_string(rule.cfa_offset());
  return (rule.kind() == RuleKind::kFromRsp ? "rsp" : "rbp") + offset;
}

}  // namespace

TEST_CASE("a rule holds what was put into it") {
  for (const int64_t offset :
       {int64_t{8}, int64_t{-8}, int64_t{500000}, -(kCfaOffsetLimit - 1), kCfaOffsetLimit - 1}) {
    for (const uint64_t distance : {0, 2, 255}) {
      const UnwindRule rule = make_rule(RuleKind::kFromRbp, offset, distance);
      CHECK(rule.kind() == RuleKind::kFromRbp);
      CHECK(rule.cfa_offset() == offset);
      CHECK(rule.rbp_distance() == distance);
      CHECK(rule.uses_rbp());
    }
  }
}

TEST_CASE("compiled rows say what readelf says") {
  need_tables();
  for (const char* name : {"libstdc++", "libc.so", "libgcc_s"}) {
    CAPTURE(name);
    const Module module = find_module(name);
    REQUIRE(module.header != 0);
    CfiIndex index;
    REQUIRE(parse_eh_frame_hdr(module.header, module.end, index));
    UnwindRows rows;
    REQUIRE(rows.compile(index, module.begin, module.end));
    const std::vector<Line> lines = readelf_rows(module.path);
    CHECK(lines.size() > 1000);
    unsigned wrong = 0;
    unsigned special = 0;
    for (const Line& line : lines) {
      const uint64_t offset = line.address + module.bias - module.begin;
      const UnwindRule rule = rows.find(static_cast<uint32_t>(offset));
      if (rule.kind() == RuleKind::kFromRsp || rule.kind() == RuleKind::kFromRbp) {
        const std::string rbp =
            rule.rbp_distance() == 0 ? "" : "c-" + std::to_string(8 * rule.rbp_distance());
        const bool same_rbp = line.rbp == rbp || (rbp.empty() && line.rbp == "u");
        if (line.cfa != as_readelf(rule) || !same_rbp || line.ra != "c-8") {
          if (++wrong < 5)
            MESSAGE(line.address << " " << line.cfa << " " << line.rbp << " " << line.ra);
        }
      } else if (rule.kind() == RuleKind::kEnd) {
        if (line.ra != "u") ++wrong;
      } else {
        ++special;  // readelf prints "exp" or a register that no compiled row knows
        if (rule.kind() == RuleKind::kNoInfo) ++wrong;
        if (line.cfa.starts_with("rsp+") && line.ra == "c-8" && line.rbp.empty()) ++wrong;
      }
    }
    CHECK(wrong == 0);
    CHECK(special < 100);
    rows.release();
  }
}

TEST_CASE("look-up agrees with the rows at each of their ends") {
  need_tables();
  const Module module = find_module("libstdc++");
  CfiIndex index;
  REQUIRE(parse_eh_frame_hdr(module.header, module.end, index));
  UnwindRows rows;
  REQUIRE(rows.compile(index, module.begin, module.end));
  for (uint64_t i = 0; i < rows.count(); ++i) {
    const UnwindRow& row = rows.row(i);
    CHECK(rows.find(row.offset) == row.rule);
    if (i != 0) {
      REQUIRE(rows.row(i - 1).offset < row.offset);
      CHECK(rows.find(row.offset - 1) == rows.row(i - 1).rule);
    }
  }
  CHECK(rows.find(static_cast<uint32_t>(module.end - module.begin) + 100000).kind() ==
        RuleKind::kNoInfo);
}

TEST_CASE("broken unwind information is refused, not followed") {
  alignas(8) uint8_t bytes[64] = {};
  const auto begin = reinterpret_cast<uint64_t>(bytes);
  const uint64_t end = begin + sizeof bytes;
  CfiFunction function;
  CHECK_FALSE(parse_fde(bytes, begin, end, function));  // length 0
  for (const uint32_t length : {4U, 16U, 59U, 61U, 0xfffffff0U, 0xffffffffU}) {
    for (const uint32_t cie : {0U, 4U, 20U, 0x7fffffffU, 0xffffffffU}) {
      memcpy(bytes, &length, 4);
      memcpy(bytes + 4, &cie, 4);
      CHECK_FALSE(parse_fde(bytes, begin, end, function));
    }
  }
  CHECK_FALSE(parse_fde(bytes, begin + 1, end, function));
  CHECK_FALSE(parse_fde(bytes + sizeof bytes, begin, end, function));
  CfiIndex index;
  const uint8_t header[] = {1, 0x1b, 3, 0x3b, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f};
  memcpy(bytes, header, sizeof header);
  CHECK_FALSE(parse_eh_frame_hdr(begin, end, index));  // more entries than bytes
  bytes[0] = 2;
  CHECK_FALSE(parse_eh_frame_hdr(begin, end, index));

  // Instructions that end in the middle, take back what was never put away, or are none.
  for (const std::vector<uint8_t>& code :
       std::vector<std::vector<uint8_t>>{{0x0c, 0x87}, {0x0b}, {0x3f}, {0x0f, 0x7f, 1}}) {
    CfiFunction broken{};
    broken.begin = 100;
    broken.end = 200;
    broken.code_factor = 1;
    broken.data_factor = -8;
    broken.cie_instructions = {code.data(), code.data()};
    broken.instructions = {code.data(), code.data() + code.size()};
    CfiRow row;
    CHECK_FALSE(cfi_row_at(broken, 150, row));
  }
}
