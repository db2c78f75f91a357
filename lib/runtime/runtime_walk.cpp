#include "runtime/runtime_walk.h"

#include "runtime/postgres/postgres_walk.h"
#include "runtime/python/python_walk.h"
#include "runtime/ruby/ruby_walk.h"

namespace heapsnap {

std::vector<RuntimePlace> find_runtimes(Target& target, const LoadedModules& modules) {
  std::vector<RuntimePlace> found;
  for (const PythonPlace& place : find_pythons(modules)) {
    found.push_back({RuntimeKind::kPython, place.version, place.module,
                     [place](Target& frozen, const RuntimeOptions& options) {
                       return std::make_unique<PythonWalk>(frozen, place, options);
                     }});
  }
  for (const RubyPlace& place : find_rubies(target, modules)) {
    found.push_back({RuntimeKind::kRuby, place.version, place.module,
                     [place](Target& frozen, const RuntimeOptions& options) {
                       return std::make_unique<RubyWalk>(frozen, place, options);
                     }});
  }
  for (const PostgresPlace& place : find_postgres_servers(target, modules)) {
    found.push_back({RuntimeKind::kPostgres, place.version, place.module,
                     [place](Target& frozen, const RuntimeOptions& options) {
                       return std::make_unique<PostgresWalk>(frozen, place, options);
                     }});
  }
  return found;
}

}  // namespace heapsnap
