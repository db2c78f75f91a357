#include "redaction/field_rules.h"

#include <doctest/doctest.h>

#include <fstream>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "snapshot/block_type_column.h"
#include "snapshot/call_stack_tables.h"
#include "snapshot/format.h"
#include "snapshot/metadata_rows.h"
#include "snapshot/metadata_tables.h"
#include "snapshot/root_tables.h"
#include "snapshot/runtime_tables.h"

using namespace heapsnap;

namespace {

// Whether share_snapshot() writes sections of a kind; nothing where nobody decided.
std::optional<bool> is_shared(format::SectionKind kind) {
  switch (kind) {
    case format::SectionKind::kChunks:
    case format::SectionKind::kPages:
    case format::SectionKind::kTable:
    case format::SectionKind::kMmappedChunks:
    case format::SectionKind::kIndex:
    case format::SectionKind::kCallStacks:
    case format::SectionKind::kReferences:
    case format::SectionKind::kRoots:
    case format::SectionKind::kTypeNames:
    case format::SectionKind::kBlockTypes:
    case format::SectionKind::kSlots: return true;
    case format::SectionKind::kContents: return false;
  }
  return std::nullopt;
}

using Field = std::pair<std::string, std::string>;

std::set<Field> decided() {
  std::set<Field> all;
  for (const FieldDecision& one : field_decisions()) {
    CHECK_MESSAGE(all.emplace(one.table, one.column).second, one.table, " ", one.column);
  }
  return all;
}

// The fields that docs/snapshot-format.md lists: columns of tables, and of sections that are none.
struct Specification {
  std::set<Field> fields;
  std::set<int> kinds;

  Specification() {
    std::ifstream document(FORMAT_DOCUMENT);
    REQUIRE(document.good());
    for (std::string line; std::getline(document, line);) read(line);
  }

 private:
  void read(const std::string& line) {
    static const std::regex heading("^#+ (.*?)( \\(kinds? [0-9and ]+\\))?$");
    static const std::regex inline_text("`(\\w+)` \\(`(\\w+)`: text\\)");
    static const std::regex note("^`(\\w+)`: (.*)$");
    static const std::regex typed("`(\\w+)` \\((?:unsigned|signed|delta|text)");
    static const std::regex named("^(?:Table )?`(\\w+)`.*");
    static const std::regex column(
        "^\\| ((?:`\\w+`(?:, )?)+) \\| (?:unsigned|signed|delta|text) \\|.*");
    static const std::regex one_column("`(\\w+)`");
    static const std::regex section_column("^\\| \\d+ \\| ([a-z ]+) \\| .*");
    static const std::regex kind("^\\| (\\d+) \\| [^|]+ \\| [^|]+ \\| [^|]+ \\|$");
    std::smatch found;
    if (std::regex_match(line, found, heading)) {
      section_ = found[1];
      table_.clear();
      return;
    }
    for (std::sregex_iterator i(line.begin(), line.end(), inline_text), end; i != end; ++i) {
      fields.emplace((*i)[1], (*i)[2]);
    }
    if (std::regex_match(line, found, note)) {
      const std::string table = found[1];
      const std::string rest = found[2];
      for (std::sregex_iterator i(rest.begin(), rest.end(), typed), end; i != end; ++i) {
        fields.emplace(table, (*i)[1]);
      }
    }
    if (is_begin_ && std::regex_match(line, found, named)) table_ = found[1];
    is_begin_ = line.empty();
    if (line.starts_with("| id |") || line.starts_with("| state |")) {
      has_ids_ = line.starts_with("| id |");
    }
    if (std::regex_match(line, found, column) && !table_.empty() && table_ != "index") {
      const std::string names = found[1];
      for (std::sregex_iterator i(names.begin(), names.end(), one_column), end; i != end; ++i) {
        fields.emplace(table_, (*i)[1]);
      }
    }
    const bool has_columns =
        section_ == "Chunk blocks" || section_ == "Memory contents" || section_ == "References";
    if (has_columns && has_ids_ && std::regex_match(line, found, section_column)) {
      fields.emplace(section_, found[1]);
    }
    if (section_ == "Section" && std::regex_match(line, found, kind))
      kinds.insert(std::stoi(found[1]));
  }

  std::string section_;
  bool is_begin_ = false;  // of a paragraph
  bool has_ids_ = false;   // the table on the page is one of columns
  std::string table_;
};

// Names of the columns of a row.
struct ColumnNames {
  std::set<Field>& fields;
  const char* table;
  template <typename T>
  void operator()(const char* name, T& /*value*/) {
    fields.emplace(table, name);
  }
};

template <typename Row>
void add_columns(std::set<Field>& fields) {
  Row row;
  ColumnNames names{fields, TableOf<Row>::kName};
  TableOf<Row>::columns(names, row);
}

std::string text_of(const std::set<Field>& fields, const std::set<Field>& without) {
  std::string text;
  for (const Field& field : fields) {
    if (!without.contains(field)) text += field.first + "." + field.second + " ";
  }
  return text;
}

}  // namespace

TEST_CASE("each field of the format has a decision, and each decision a field") {
  const Specification specification;
  CHECK(specification.fields.size() > 150);
  const std::set<Field> all = decided();
  CHECK(text_of(specification.fields, all) == "");
  CHECK(text_of(all, specification.fields) == "");
}

TEST_CASE("each kind of section has a decision") {
  const Specification specification;
  CHECK(specification.kinds.size() >= 11);
  for (const int kind : specification.kinds) {
    CHECK_MESSAGE(is_shared(static_cast<format::SectionKind>(kind)), kind);
  }
  CHECK(!is_shared(static_cast<format::SectionKind>(9999)));
  CHECK(is_shared(format::SectionKind::kContents) == false);
}

TEST_CASE("each column that is written has a decision") {
  std::set<Field> written;
  add_columns<CaptureRow>(written);
  add_columns<Process>(written);
  add_columns<Collection>(written);
  add_columns<MemoryLeft>(written);
  add_columns<FreezeRecord>(written);
  add_columns<ReferenceRow>(written);
  add_columns<ThreadRow>(written);
  add_columns<MappingRow>(written);
  add_columns<MallocInstance>(written);
  add_columns<Arena>(written);
  add_columns<HeapSegment>(written);
  add_columns<ThreadCache>(written);
  add_columns<Corruption>(written);
  add_columns<Runtime>(written);
  add_columns<RuntimeClass>(written);
  add_columns<RuntimeType>(written);
  add_columns<RuntimePages>(written);
  add_columns<RuntimeArea>(written);
  add_columns<TrackerRecord>(written);
  add_columns<TrackedModule>(written);
  add_columns<TrackedThread>(written);
  add_columns<AddressRange>(written);
  add_columns<MmappedChunk>(written);
  add_columns<CallNode>(written);
  add_columns<AllocationSite>(written);
  add_columns<RootRow>(written);
  add_columns<RootPlace>(written);
  add_columns<BlockType>(written);
  CHECK(text_of(written, decided()) == "");
}

TEST_CASE("a column that nobody decided on is refused") {
  CHECK_THROWS_AS(rule_of("process", "mother_in_law"), Error);
  CHECK_THROWS_AS(rule_of("no_table", "text"), Error);
  CHECK(rule_of("process", "exe") == FieldRule::kPath);
}
