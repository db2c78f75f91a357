#include "elf/debug_types.h"

#include <dwarf.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "elf/dwarf_index.h"
#include "elf/type_reader.h"

namespace heapsnap {

namespace {

constexpr int kDeepestBlock = 32;

// Where types, the places of variables and the extent of code are.
constexpr std::string_view kSectionsOfDebugTypes[] = {
    "info", "types", "abbrev", "str", "line_str", "str_offsets", "addr", "ranges", "rnglists"};

// Answers the questions of one file.
class Answering {
 public:
  Answering(TypesRead& read, const DwarfImage& image, const DwarfImage* alternate)
      : budget_(read.budget), image_(image), index_(read.budget), types_(read, index_) {
    if (alternate != nullptr) index_.add(*alternate);
    index_.add(image);
    index_.seal();
  }

  TypeAnswers answer(const TypeQuestions& questions) {
    TypeAnswers answers;
    for (const std::string& name : questions.classes) {
      const DwarfEntry found = index_.find_class(name);
      answers.classes.push_back(found ? types_.number_of(found) : 0);
    }
    answers.frames.resize(questions.frames.size());
    for (size_t i = 0; i < questions.frames.size(); ++i) {
      answers.frames[i].resize(questions.frames[i].words.size());
    }
    answer_frames(questions.frames, answers.frames);
    answers.thread_locals = pointees(index_.thread_locals(), questions.thread_locals, nullptr);
    std::vector<bool> is_answered;
    answers.variables = pointees(index_.variables(), questions.variables, &is_answered);
    if (std::find(is_answered.begin(), is_answered.end(), false) != is_answered.end()) {
      index_.add_variables_of_functions(image_);
      answers.variables = pointees(index_.variables(), questions.variables, nullptr);
    }
    types_.finish();
    return answers;
  }

 private:
  // Of the words those that lie in one of the variables.
  std::vector<Pointee> pointees(const std::vector<DwarfIndex::Variable>& variables,
                                const std::vector<uint64_t>& words,
                                std::vector<bool>* is_answered) {
    std::vector<Pointee> found(words.size());
    if (is_answered != nullptr) is_answered->assign(words.size(), false);
    for (const DwarfIndex::Variable& variable : variables) {
      auto word = std::lower_bound(words.begin(), words.end(), variable.begin);
      if (word == words.end() || !budget_.spend()) continue;
      const DwarfEntry type = variable.entry.type();
      const uint64_t size = types_.size_of(type);
      if (size == 0 || *word - variable.begin >= size) continue;
      const DebugType layout = types_.layout_of(type);
      for (; word != words.end() && *word - variable.begin < size; ++word) {
        const auto i = static_cast<size_t>(word - words.begin());
        if (is_answered != nullptr) (*is_answered)[i] = true;
        found[i] = layout.pointee_at(*word - variable.begin);
      }
    }
    return found;
  }

  void answer_frames(const std::vector<TypeQuestions::Frame>& frames,
                     std::vector<std::vector<Pointee>>& answers) {
    if (frames.empty()) return;
    image_.each_unit([&](const DwarfEntry& unit) {
      for (size_t i = 0; i < frames.size(); ++i) {
        if (!budget_.spend()) return false;
        if (!unit.has_code_at(frames[i].code)) continue;
        if (const DwarfEntry function = function_at(unit, frames[i].code, 0)) {
          answer_frame(function, frames[i], answers[i], 0);
        }
      }
      return true;
    });
  }

  DwarfEntry function_at(const DwarfEntry& scope, uint64_t code, int depth) {
    DwarfEntry found;
    if (depth == kDeepestBlock) return found;
    scope.for_each_child([&](const DwarfEntry& child) {
      if (!budget_.spend()) return false;
      const int tag = child.tag();
      if (tag == DW_TAG_subprogram && child.has_code_at(code)) found = child;
      if (tag == DW_TAG_namespace) found = function_at(child, code, depth + 1);
      return !found;
    });
    const bool is_sound = found && (depth != 0 || found.place(DW_AT_frame_base).kind ==
                                                      DwarfEntry::Place::Kind::kFrameStart);
    return is_sound ? found : DwarfEntry{};
  }

  // Inner blocks come after what is around them: theirs is what counts.
  void answer_frame(const DwarfEntry& scope, const TypeQuestions::Frame& frame,
                    std::vector<Pointee>& answers, int depth) {
    if (depth == kDeepestBlock) return;
    scope.for_each_child([&](const DwarfEntry& child) {
      if (!budget_.spend()) return false;
      const int tag = child.tag();
      if (tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine) {
        if (child.has_code_at(frame.code)) answer_frame(child, frame, answers, depth + 1);
      } else if (tag == DW_TAG_variable || tag == DW_TAG_formal_parameter) {
        answer_local(child, frame, answers);
      }
      return true;
    });
  }

  void answer_local(const DwarfEntry& variable, const TypeQuestions::Frame& frame,
                    std::vector<Pointee>& answers) {
    const DwarfEntry::Place place = variable.place(DW_AT_location);
    if (place.kind != DwarfEntry::Place::Kind::kFrame) return;
    const DwarfEntry type = variable.type();
    const uint64_t size = types_.size_of(type);
    std::optional<DebugType> layout;
    for (size_t i = 0; i < frame.words.size(); ++i) {
      const uint64_t offset = static_cast<uint64_t>(frame.words[i]) - place.value;
      if (offset >= size) continue;
      if (!layout) layout = types_.layout_of(type);
      answers[i] = layout->pointee_at(offset);
    }
  }

  DwarfBudget& budget_;
  const DwarfImage& image_;
  DwarfIndex index_;
  TypeReader types_;
};

}  // namespace

struct DebugTypes::State {
  explicit State(const DebugTypeLimits& limits) : types(limits) {}
  TypesRead types;
};

DebugTypes::DebugTypes(const DebugTypeLimits& limits) : state_(std::make_unique<State>(limits)) {}
DebugTypes::~DebugTypes() = default;

const TypeGraph& DebugTypes::graph() const {
  return state_->types.graph;
}

bool DebugTypes::is_cut_off() const {
  return state_->types.is_full || state_->types.budget.is_spent();
}

TypeAnswers DebugTypes::read(const ElfImage& file, const TypeQuestions& questions) {
  TypeAnswers none;
  none.variables.resize(questions.variables.size());
  none.thread_locals.resize(questions.thread_locals.size());
  none.classes.resize(questions.classes.size());
  for (const auto& frame : questions.frames) none.frames.emplace_back(frame.words.size());
  if (!has_debug_information(file) || state_->types.budget.is_spent()) return none;
  // Closed after the image that refers to it.
  const auto alternate = DwarfImage::open_alternate(file, kSectionsOfDebugTypes);
  const auto image = DwarfImage::open(file, kSectionsOfDebugTypes);
  if (!image) return none;
  if (alternate) image->set_alternate(*alternate);
  return Answering(state_->types, *image, alternate.get()).answer(questions);
}

}  // namespace heapsnap
