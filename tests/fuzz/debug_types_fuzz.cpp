// An ELF file with debug information of any bytes: what its variables, frames and classes lead to.
// Whatever it says, the reader ends, stays within its limits, and gives types that are there.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "elf/debug_types.h"
#include "elf/elf_image.h"

namespace {

using namespace heapsnap;

constexpr size_t kMostTypes = 1 << 10;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_pointee(const TypeGraph& graph, const Pointee& pointee) {
  require(pointee.type < graph.types.size());
}

TypeQuestions questions_of(const ElfImage& image) {
  TypeQuestions questions;
  for (const ElfSection& section : image.sections()) {
    if (section.name != ".data" && section.name != ".bss") continue;
    constexpr uint64_t kMostWords = 256;
    for (uint64_t i = 0; i < kMostWords; ++i)
      questions.variables.push_back(section.address + i * 8);
  }
  std::sort(questions.variables.begin(), questions.variables.end());
  for (uint64_t i = 0; i < 8; ++i) questions.thread_locals.push_back(i * 8);
  for (const ElfSymbol& symbol : image.symbols()) {
    constexpr size_t kMostFrames = 8;
    if (symbol.type != 2 || questions.frames.size() == kMostFrames) continue;
    TypeQuestions::Frame frame{symbol.value + symbol.size / 2, {}};
    for (int64_t word = -16; word < 0; ++word) frame.words.push_back(word * 8);
    questions.frames.push_back(std::move(frame));
  }
  questions.classes = {"fixture::Derived", "A<B>::C", "", "::", "<"};
  return questions;
}

void check_graph(const TypeGraph& graph) {
  require(graph.types.size() <= kMostTypes);
  for (const DebugType& type : graph.types) {
    require(type.first < graph.types.size());
    uint64_t before = 0;
    for (const PointerMember& member : type.pointers) {
      require(member.offset >= before);
      before = member.offset;
      check_pointee(graph, member.to);
      check_pointee(graph, type.pointee_at(member.offset));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto image = ElfImage::from_bytes(std::as_bytes(std::span(data, size)), "fuzz");
    const TypeQuestions questions = questions_of(image);
    DebugTypeLimits limits;
    limits.entries = 1 << 14;
    limits.types = kMostTypes;
    limits.pointers = 1 << 14;
    DebugTypes types(limits);
    const TypeAnswers answers = types.read(image, questions);
    require(answers.variables.size() == questions.variables.size());
    require(answers.thread_locals.size() == questions.thread_locals.size());
    require(answers.frames.size() == questions.frames.size());
    require(answers.classes.size() == questions.classes.size());
    for (const Pointee& pointee : answers.variables) check_pointee(types.graph(), pointee);
    for (size_t i = 0; i < answers.frames.size(); ++i) {
      require(answers.frames[i].size() == questions.frames[i].words.size());
      for (const Pointee& pointee : answers.frames[i]) check_pointee(types.graph(), pointee);
    }
    check_graph(types.graph());
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kBadInput);
  }
  return 0;
}
