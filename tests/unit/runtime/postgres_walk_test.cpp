#include "runtime/postgres/postgres_walk.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/unit/runtime/fake_postgres.h"

using namespace heapsnap;
using test::FakePostgres;

namespace {

constexpr unsigned kVersions[] = {13, 14, 15, 16, 17};

const RuntimeContext* find_context(const RuntimeModel& model, const std::string& name) {
  for (const RuntimeContext& context : model.contexts) {
    if (context.name == name) return &context;
  }
  return nullptr;
}

std::string problem_of(const RuntimeModel& model, const std::string& name) {
  const RuntimeContext* const context = find_context(model, name);
  return context == nullptr ? "(no such context)" : context->problem;
}

}  // namespace

TEST_CASE("a set's blocks, free chunks and chunks in use are counted, of each version") {
  for (const unsigned version : kVersions) {
    CAPTURE(version);
    FakePostgres postgres(version);
    const uint64_t header = postgres.layout.set_chunk_header;
    const uint64_t set = postgres.add_set(postgres.top, "CacheMemoryContext", 8192);
    postgres.add_chunk(set, 3);
    const uint64_t second = postgres.add_chunk(set, 4);
    postgres.free_chunk(set, second, 4);
    postgres.add_set_block(set, 16384);
    postgres.add_chunk(set, 10);
    const RuntimeModel model = postgres.walk();
    REQUIRE(model.runtimes.size() == 1);
    CHECK(model.runtimes[0].why_not == "");
    CHECK(model.runtimes[0].contexts == 2);
    CHECK(model.runtimes[0].damaged_contexts == 0);
    REQUIRE(model.contexts.size() == 2);
    const RuntimeContext& context = model.contexts[1];
    CHECK(context.name == "CacheMemoryContext");
    CHECK(context.problem == "");
    CHECK(context.kind == ContextKind::kAllocSet);
    CHECK(context.parent == 0);
    CHECK(context.level == 1);
    CHECK(context.blocks == 2);
    CHECK(context.bytes == 8192 + 16384);
    CHECK(context.free_chunks == 1);
    REQUIRE(context.counts_chunks);
    CHECK(context.used_chunks == 2);
    const uint64_t overhead = postgres.layout.set_size + 2 * postgres.layout.set_block_header;
    CHECK(context.free_bytes == context.bytes - overhead - (header + 64) - (header + 8192));
    CHECK(context.malloc_blocks == 2);
    CHECK(context.in_heaps.bytes == 8200 + 16392);
    CHECK(test::adds_up(postgres, model));
  }
}

TEST_CASE("generations, slabs and bumps are counted") {
  for (const unsigned version : kVersions) {
    CAPTURE(version);
    FakePostgres postgres(version);
    const bool has_keeper = postgres.layout.has_generation_keeper();
    const uint64_t generation = postgres.add_generation(postgres.top, "Tuples", 8192);
    postgres.add_generation_block(generation, 16384, 5, 2);
    const uint64_t slab = postgres.add_slab(postgres.top, "Change", 80, 8192);
    const uint64_t full = 80 + (version >= 16 ? 8 : 16);
    const uint64_t chunks = (8192 - postgres.layout.slab_block_header) / full;
    postgres.add_slab_block(slab, 0, 0);
    postgres.add_slab_block(slab, 2, 2);
    if (version >= 16) postgres.add_slab_block(slab, -1, chunks);
    if (version >= 17) {
      const uint64_t bump = postgres.add_bump(postgres.top, "Caller tuples", 8192);
      postgres.add_bump_block(bump, 32768, 1000);
    }
    const RuntimeModel model = postgres.walk();
    CHECK(model.runtimes[0].why_not == "");
    CHECK(model.runtimes[0].damaged_contexts == 0);

    const RuntimeContext* context = find_context(model, "Tuples");
    REQUIRE(context != nullptr);
    CHECK(context->kind == ContextKind::kGeneration);
    CHECK(context->blocks == (has_keeper ? 2 : 1));
    CHECK(context->bytes == 16384 + (has_keeper ? 8192 : postgres.layout.generation_size));
    CHECK(context->free_chunks == 2);
    CHECK(context->used_chunks == 3);
    CHECK(context->malloc_blocks == 2);

    context = find_context(model, "Change");
    REQUIRE(context != nullptr);
    const uint64_t empty = version >= 16 ? 1 : 0;
    CHECK(context->kind == ContextKind::kSlab);
    CHECK(context->problem == "");
    CHECK(context->blocks == 2 + empty);
    CHECK(context->free_chunks == 2 + empty * chunks);
    CHECK(context->used_chunks == 2 * chunks - 2);
    CHECK(context->free_bytes == context->free_chunks * full);
    CHECK(context->malloc_blocks == 3 + empty);

    if (version >= 17) {
      context = find_context(model, "Caller tuples");
      REQUIRE(context != nullptr);
      CHECK(context->kind == ContextKind::kBump);
      CHECK(context->bytes == 8192 + 32768);
      CHECK(!context->counts_chunks);
      const uint64_t header = postgres.layout.bump_block_header;
      CHECK(context->free_bytes ==
            8192 - postgres.layout.bump_size - header + 32768 - header - 1000);
    }
    CHECK(test::adds_up(postgres, model));
  }
}

TEST_CASE("in the graph a block is of its context, and what is free at its end holds nothing") {
  for (const unsigned version : kVersions) {
    CAPTURE(version);
    FakePostgres postgres(version);
    const uint64_t set = postgres.add_set(postgres.top, "CacheMemoryContext", 8192);
    postgres.add_chunk(set, 3);
    const uint64_t more = postgres.add_set_block(set, 16384);
    const uint64_t below[] = {postgres.add_set(set, "index info", 8192),
                              postgres.add_set(set, "index info", 8192)};
    RuntimeObjects objects;
    const RuntimeModel model = postgres.walk(false, &objects);
    REQUIRE(objects.blocks.size() == 5);
    // Both are the one's above, not the one the other's.
    REQUIRE(objects.listed.size() == 2);
    for (const RuntimeObjects::Listed& one : objects.listed) {
      CHECK(one.by == Address(set));
      CHECK((one.at == Address(below[0]) || one.at == Address(below[1])));
      CHECK(one.offset * 8 >= 8192);
    }
    CHECK(objects.listed[0].at != objects.listed[1].at);
    CHECK(objects.listed[0].offset != objects.listed[1].offset);
    const auto class_at = [&](uint64_t at) {
      for (const RuntimeObjects::Block& block : objects.blocks) {
        if (block.at == Address(at)) return objects.slots.classes()[block.of_class];
      }
      return ObjectClass{};
    };
    CHECK(class_at(postgres.top).name == "TopMemoryContext (context block)");
    CHECK(class_at(set).name == "CacheMemoryContext (context block)");
    CHECK(class_at(more).name == "CacheMemoryContext (context block)");
    CHECK(class_at(set).is_held_by_links);
    const uint32_t next = postgres.layout.set_block_next;
    CHECK(class_at(set).links == (ObjectClass::word_bit(postgres.layout.set_blocks) |
                                  ObjectClass::word_bit(postgres.layout.set_size + next)));
    CHECK(class_at(more).is_held_by_links);
    CHECK(class_at(more).links == ObjectClass::word_bit(next));
    REQUIRE(objects.variables.size() == 1);
    CHECK(objects.variables[0].name == "memory context CacheMemoryContext");
    CHECK(postgres.word(objects.variables[0].word.value()) == set);
    uint64_t left_over = 0;
    for (const RuntimeObjects::LeftOver& words : objects.left_over) {
      CHECK(words.to == RuntimeObjects::LeftOver::kToEnd);
      const uint64_t bytes = words.in == Address(more) ? 16384 : 8192;
      REQUIRE(words.from < bytes);
      left_over += bytes - words.from;
    }
    uint64_t free_bytes = 0;
    for (const RuntimeContext& context : model.contexts) free_bytes += context.free_bytes;
    CHECK(left_over == free_bytes);
  }
}

TEST_CASE("in the graph nothing but its context holds a block of a generation") {
  for (const unsigned version : kVersions) {
    CAPTURE(version);
    FakePostgres postgres(version);
    const uint64_t generation = postgres.add_generation(postgres.top, "Tuples", 8192);
    const uint64_t block = postgres.add_generation_block(generation, 16384, 5, 2);
    RuntimeObjects objects;
    postgres.walk(false, &objects);
    const bool is_listed =
        std::ranges::any_of(objects.listed, [&](const RuntimeObjects::Listed& one) {
          return one.by == Address(generation) && one.at == Address(block);
        });
    CHECK(is_listed);
    for (const RuntimeObjects::Block& one : objects.blocks) {
      const ObjectClass& known = objects.slots.classes()[one.of_class];
      CHECK(known.is_held_by_links);
      if (one.at == Address(block)) CHECK(known.links == 0);
    }
  }
}

TEST_CASE("the tree is read from the top, each context behind its parent") {
  FakePostgres postgres;
  const uint64_t cache = postgres.add_set(postgres.top, "CacheMemoryContext", 8192);
  postgres.add_set(cache, "index info", 1024);
  postgres.add_set(cache, "index info", 1024);
  postgres.add_set(postgres.top, "ErrorContext", 8192);
  const RuntimeModel model = postgres.walk();
  std::string text;
  for (const RuntimeContext& context : model.contexts) {
    text += std::string(context.level, ' ') + context.name + "\n";
  }
  // Newer children are in front.
  CHECK(text ==
        "TopMemoryContext\n"
        " ErrorContext\n"
        " CacheMemoryContext\n"
        "  index info\n"
        "  index info\n");
  CHECK(model.contexts[3].parent == 2);
  CHECK(model.contexts[4].parent == 2);
}

TEST_CASE("what contexts are for is told only where asked for, hash tables' names always") {
  FakePostgres postgres;
  const uint64_t plan = postgres.add_set(postgres.top, "CachedPlan", 1024);
  const uint64_t table = postgres.add_set(postgres.top, "dynahash", 8192);
  const auto put_text = [&](uint64_t context, const std::string& text) {
    const uint64_t at = postgres.allocate(64);
    postgres.target.put_bytes(Address(at), std::as_bytes(std::span(text)));
    postgres.put(context + postgres.layout.context_ident, at);
  };
  put_text(plan, "SELECT 'secret'");
  put_text(table, "LOCALLOCK hash");
  const RuntimeModel model = postgres.walk(false);
  REQUIRE(find_context(model, "CachedPlan") != nullptr);
  CHECK(find_context(model, "CachedPlan")->ident == "");
  CHECK(find_context(model, "LOCALLOCK hash") != nullptr);
  CHECK(find_context(postgres.walk(true), "CachedPlan")->ident == "SELECT 'secret'");

  // A name that the process has made itself is none, and neither is one that is no text.
  postgres.put(plan + postgres.layout.context_name,
               postgres.word(plan + postgres.layout.context_ident));
  CHECK(find_context(postgres.walk(true), "(no name)") != nullptr);
  postgres.put(plan + postgres.layout.context_name, FakePostgres::methods(1));
  CHECK(find_context(postgres.walk(true), "(no name)") != nullptr);
}

TEST_CASE(
    "malloc's blocks that no context has are counted apart, and deleted contexts that are kept") {
  FakePostgres postgres;
  postgres.allocate(100);
  postgres.allocate(8192);
  const uint64_t spare = postgres.add_set(0, "ExprContext", 8192);
  postgres.add_set(0, "index info", 1024);
  RuntimeModel model = postgres.walk();
  CHECK(model.runtimes[0].spare_contexts == 2);
  CHECK(model.runtimes[0].spare_bytes == 8200 + 1032);
  CHECK(model.runtimes[0].other_malloc_blocks == 2);
  CHECK(model.runtimes[0].other_malloc_bytes == 104 + 8200);
  // One that has a parent is none, wherever it is from.
  postgres.put(spare + postgres.layout.context_parent, postgres.top);
  model = postgres.walk();
  CHECK(model.runtimes[0].spare_contexts == 1);
  CHECK(model.runtimes[0].other_malloc_bytes == 104 + 2 * 8200);
}

TEST_CASE("what does not fit is refused in words") {
  FakePostgres postgres;
  const auto why_not = [&] { return postgres.walk().runtimes[0].why_not; };
  const PostgresLayout& layout = postgres.layout;
  SUBCASE("no context yet") {
    postgres.put(FakePostgres::kVariable, 0);
    CHECK(why_not() == "it has no memory contexts yet");
  }
  SUBCASE("a top that is nowhere") {
    postgres.put(FakePostgres::kVariable, 0x700000);
    CHECK(why_not().find("cannot be read") != std::string::npos);
  }
  SUBCASE("the tag of another version") {
    postgres.put_int(postgres.top, postgres_layout(16)->set_tag);
    CHECK(why_not().find("is no memory context of this version") != std::string::npos);
  }
  SUBCASE("functions that are none of the server's") {
    postgres.put(FakePostgres::methods(1) + 8, FakePostgres::kHeap);
    CHECK(why_not().find("has other functions") != std::string::npos);
  }
  SUBCASE("a parent of the top") {
    postgres.put(postgres.top + layout.context_parent, postgres.top);
    CHECK(why_not().find("has another parent") != std::string::npos);
  }
  SUBCASE("another name of the top") {
    postgres.put(postgres.top + layout.context_name, postgres.constant("ErrorContext"));
    CHECK(why_not() == "its first memory context is called ErrorContext");
  }
  SUBCASE("blocks laid out otherwise") {
    postgres.put(postgres.top + layout.set_size + layout.set_block_context, 0);
    CHECK(why_not().find("1 of its 1 memory contexts do not fit") != std::string::npos);
    CHECK(why_not().find("its list of blocks breaks off at 0x") != std::string::npos);
  }
  SUBCASE("blocks that overlap") {
    const uint64_t set = postgres.add_set(postgres.top, "MessageContext", 8192);
    postgres.add_set(postgres.top, "ErrorContext", 8192);
    const uint64_t block = set + layout.set_size;
    postgres.put(block + layout.set_block_end, postgres.word(block + layout.set_block_end) + 1024);
    postgres.put(set + layout.context_allocated, 8192 + 1024);
    CHECK(why_not().find("overlap at 0x") != std::string::npos);
  }
  CHECK(postgres.walk().contexts.empty());
}

TEST_CASE("a context that contradicts itself is told, the others are read") {
  FakePostgres postgres;
  const PostgresLayout& layout = postgres.layout;
  postgres.add_set(postgres.top, "ErrorContext", 8192);
  const uint64_t set = postgres.add_set(postgres.top, "MessageContext", 8192);
  const uint64_t chunk = postgres.add_chunk(set, 4);
  postgres.add_chunk(set, 4);
  const uint64_t block = set + layout.set_size;
  std::string problem;
  bool counts = true;  // its blocks
  SUBCASE("another sum") {
    postgres.put(set + layout.context_allocated, 8200);
    problem = "its blocks have 8192 bytes, but it counts 8200";
  }
  SUBCASE("a chunk that was written over") {
    postgres.put(chunk, 129);
    problem = "a chunk is damaged: that at 0x";
  }
  SUBCASE("a free chunk that is in no list") {
    postgres.put(chunk + 8, 0);
    problem = "0 chunks are in its lists of free ones, but 1 of 2 say they are free";
  }
  SUBCASE("a list of free chunks that leaves it") {
    postgres.put(set + layout.set_free_lists, 0x300000);
    problem = "a list of its free chunks breaks off at 0x";
  }
  SUBCASE("a circle of free chunks") {
    postgres.free_chunk(set, chunk, 4);
    postgres.put(chunk + 8, chunk);
    problem = "more is in its lists of free chunks than it has";
  }
  SUBCASE("a block's end before its begin") {
    postgres.put(block + layout.set_block_end, block);
    problem = "the ends do not fit of a block at 0x";
    counts = false;
  }
  SUBCASE("a block in no memory") {
    postgres.put(block + layout.set_block_end, block + 0x400000);
    problem = "not all of a block is memory: that at 0x";
    counts = false;
  }
  SUBCASE("a circle of blocks") {
    postgres.put(block + layout.set_block_next, block);
    problem = "its list of blocks breaks off at 0x";
    counts = false;
  }
  SUBCASE("a first block that is elsewhere") {
    const uint64_t other = postgres.add_set_block(set, 1024);
    postgres.put(other + layout.set_block_next, 0);
    problem = "its first block is not in its list, at 0x";
    counts = false;
  }
  const RuntimeModel model = postgres.walk();
  CHECK(model.runtimes[0].why_not == "");
  CHECK(model.runtimes[0].damaged_contexts == 1);
  CHECK(problem_of(model, "MessageContext").find(problem) == 0);
  CHECK(problem_of(model, "ErrorContext") == "");
  CHECK(find_context(model, "MessageContext")->bytes == (counts ? 8192 : 0));
  CHECK(test::adds_up(postgres, model));
}

TEST_CASE("a link that does not lead back ends its row, and is a problem of the parent") {
  FakePostgres postgres;
  const PostgresLayout& layout = postgres.layout;
  const uint64_t last = postgres.add_set(postgres.top, "ErrorContext", 8192);
  const uint64_t middle = postgres.add_set(postgres.top, "MessageContext", 8192);
  postgres.add_set(postgres.top, "CacheMemoryContext", 8192);
  std::string parent = "TopMemoryContext";
  std::string problem;
  SUBCASE("a circle of siblings") {
    postgres.put(last + layout.context_next, middle);
    problem = "has another one in front";
  }
  SUBCASE("a child of another parent") {
    postgres.put(last + layout.context_parent, middle);
    problem = "has another parent";
  }
  SUBCASE("a context that is its own child") {
    postgres.put(middle + layout.context_first_child, middle);
    parent = "MessageContext";
    problem = "has another parent";
  }
  SUBCASE("something else") {
    postgres.put_int(last, 1);
    problem = "is no memory context of this version";
  }
  const RuntimeModel model = postgres.walk();
  CHECK(model.runtimes[0].why_not == "");
  CHECK(model.runtimes[0].damaged_contexts == 1);
  CHECK(problem_of(model, parent).find("its child at 0x") == 0);
  CHECK(problem_of(model, parent).find(problem) != std::string::npos);
  CHECK(find_context(model, "CacheMemoryContext") != nullptr);
  CHECK(test::adds_up(postgres, model));
}

TEST_CASE("random damage never adds up to more than there is") {
  std::mt19937_64 random(4711);
  for (int round = 0; round < 300; ++round) {
    FakePostgres postgres(kVersions[random() % 5]);
    const uint64_t set = postgres.add_set(postgres.top, "CacheMemoryContext", 8192);
    for (unsigned i = 0; i < 20; ++i) postgres.add_chunk(set, i % 5);
    const uint64_t generation = postgres.add_generation(set, "Tuples", 8192);
    const uint64_t block = postgres.add_generation_block(generation, 16384, 5, 2);
    const uint64_t slab = postgres.add_slab(set, "Change", 80, 8192);
    postgres.add_slab_block(slab, 0, 0);
    const uint64_t places[] = {postgres.top, set, generation, block, slab};
    for (int i = 0; i < 8; ++i) {
      postgres.put(places[random() % 5] + random() % 0x40 * 8,
                   random() % 2 == 0 ? random() : places[random() % 5] + random() % 0x200);
    }
    REQUIRE(test::adds_up(postgres, postgres.walk()));
  }
}
