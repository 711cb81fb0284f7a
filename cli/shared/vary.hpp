// Rehearsals of one program for every combination of values of its options (orrery rehearse
// --vary), in parallel, and the ranked table of their results. One thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace orrery::cli {

/// Values of one variable, for example "tp" with "1", "2" and "4".
struct Variable {
  std::string name;
  std::vector<std::string> values;
};
/// A value for each variable, in the order of the variables.
using Combination = std::vector<std::pair<std::string, std::string>>;

/// Returns the variables of a text like 'tp=1,2,4,8 mbs=1..4'. Throws a usage Error for another
/// form, a name that occurs twice, and a range of whole numbers that falls or is longer than 1,000.
std::vector<Variable> variables_in(const std::string& text);

/// Returns all combinations, the last variable fastest. Throws a usage Error for more than 1,000.
std::vector<Combination> combinations_of(const std::vector<Variable>& variables);

/// Returns the words with the values of a combination in place of {name}. Throws a usage Error if
/// a variable occurs in no word.
std::vector<std::string> with_values(const std::vector<std::string>& words,
                                     const Combination& values);

/// Outcome of the rehearsal of one combination.
struct Trial {
  Combination values;
  int exit_code = 0;
  nlohmann::ordered_json report;  ///< rehearsal's report; null without one
  std::string reason;             ///< why the combination has no step time; empty if it has one
};

/// Runs `command` (program and arguments, with {name} for the values) for each combination, as many
/// at once as the process may use processors, and returns the outcomes, best first: by tokens per
/// second if all of them know their tokens, else by step time; failed ones last, in their order.
/// Calls `progress`, which must be set, with the number of ended and failed combinations. A program
/// that does not exist fails with exit code 127. Throws an environment Error if no process can be
/// started or no temporary folder can be made, and as with_values().
std::vector<Trial> run_trials(const std::vector<std::string>& command,
                              const std::vector<Combination>& combinations,
                              const std::function<void(std::size_t, std::size_t)>& progress);

/// Returns the table of ranked outcomes for people. `trials` must not be empty.
std::string trial_table(const std::vector<Trial>& trials);
/// Returns the JSON object of ranked outcomes.
nlohmann::ordered_json trials_json(const std::vector<Trial>& trials);

}  // namespace orrery::cli
