// Random damage to a text, as an editor, a merge or a bad disk would do it: for tests that every
// such text is either good or refused with its place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/random.hpp"

namespace orrery {

/// One to four mutations of `text`.
std::string mutate(const std::string& text, Rng& rng);

/// From the environment variable ORRERY_SEED, else a fixed one. Print it with every failure.
std::uint64_t mutation_seed();

/// The shipped examples, and the topologies of the tests.
std::vector<std::filesystem::path> yaml_files(const std::string& folder);

std::string read_text(const std::filesystem::path& path);

}  // namespace orrery
