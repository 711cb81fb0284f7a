// Exchange between the ranks of a rehearsal that run side by side, for example one for each stage
// of a pipeline: messages, collectives of several roles, summaries for the report. Called by
// `orrery rehearse` for the questions of its children (python/orrery/programs/roles.py). One
// thread. Seconds of simulated time.
//
// A message and a collective are meetings. Each member posts its time of arrival, and the meeting
// starts when the last member has arrived and the meeting before it on the same line has ended:
//   {"meet": "0/0>4", "number": 7, "members": [0, 4], "time": 1.5, "seconds": 0.1, "content": ""}
// has the answer {} at once, and
//   {"wait": "0/0>4", "number": 7}
// has the answer {"start": 1.5, "contents": {"0": "...", "4": ""}} once all members have posted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace orrery::cli {

/// Meetings and summaries of the ranks that run.
class RoleExchange {
 public:
  /// Answer to the question of a rank.
  struct Answer {
    std::uint32_t rank;
    nlohmann::json text;
  };

  explicit RoleExchange(const std::vector<std::uint32_t>& ranks)
      : running_(ranks.begin(), ranks.end()) {}

  /// Returns true for a question that this class answers.
  static bool is_exchange(const nlohmann::json& question);

  /// Handles a question of a rank, and returns the answers that are now due, also to ranks that
  /// have waited. A wait that cannot end is answered by {"lost": TEXT} if a member has ended, and
  /// by {"stuck": TEXT} if every rank waits. Throws a Json exception for another form.
  std::vector<Answer> answer_question(std::uint32_t rank, const nlohmann::json& question);

  /// Records that a rank has ended, and returns the answers that are due for this reason.
  std::vector<Answer> end_rank(std::uint32_t rank);

  /// Returns the ranks that the program needs beside those that run: the partners of messages.
  const std::set<std::uint32_t>& needed_ranks() const { return needed_; }

 private:
  using Place = std::pair<std::string, std::uint64_t>;
  struct Meeting {
    std::vector<std::uint32_t> members;
    std::map<std::uint32_t, std::string> contents;
    double start = 0;
    double seconds = 0;
    std::set<std::uint32_t> answered;
  };

  void post_arrival(std::uint32_t rank, const nlohmann::json& question);
  std::optional<nlohmann::json> outcome_of(std::uint32_t rank, const Place& place);
  std::vector<Answer> answers_due();
  bool is_blocked() const;
  std::string waiting_text() const;

  std::set<std::uint32_t> running_;
  std::set<std::uint32_t> needed_;
  std::map<Place, Meeting> meetings_;
  std::map<std::string, double> line_ends_;
  std::map<std::uint32_t, Place> waiting_;
  std::map<std::uint32_t, nlohmann::json> summaries_;
  std::optional<std::uint32_t> summaries_for_;
};

}  // namespace orrery::cli
