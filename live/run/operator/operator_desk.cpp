#include "live/run/operator/operator_desk.hpp"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <variant>

#include <fmt/format.h>

#include "live/run/files/run_files.hpp"
#include "live/run/files/warning_line.hpp"
#include "policies/record/encoding.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::milliseconds kOrdersLook{200};
// Seconds after which a question counts as answered with no (HandOverRules).
constexpr double kAnswerPatience = 60;
// Longest wait for the removal of applied orders at the end of the run.
constexpr std::chrono::milliseconds kRemovalPatience{1000};

bool is_absent(const std::string& file) {
  std::error_code unknown;
  return std::filesystem::status(file, unknown).type() == std::filesystem::file_type::not_found;
}

}  // namespace

OperatorDesk::OperatorDesk(const std::string& folder, const std::string& metrics, Run run)
    : folder_(folder), run_(std::move(run)), board_(folder, metrics), removals_(kRemovalPatience) {}

void OperatorDesk::add_warning(Nanos now, const std::string& what) {
  print_warning(what);
  warnings_.push_back(what);
  board_.add_line(now, "warning: " + what);
}

void OperatorDesk::add_event(const Event& event, Nanos now) {
  board_.add_line(now, describe(event));
  if (const auto* outcome = std::get_if<Decided>(&event)) {
    ++outcomes_;
    forget_question(outcome->decision);
  }
}

void OperatorDesk::add_question(const Decision& decision, Nanos now) {
  questions_.push_back({.decision = decision.id,
                        .at_s = to_seconds(now),
                        .what = trace_line(decision),
                        .why = decision.why});
  board_.add_line(now, fmt::format("decision {} asks: {}: {}", decision.id, trace_line(decision),
                                   decision.why));
}

void OperatorDesk::forget_question(std::uint64_t decision) {
  std::erase_if(questions_,
                [decision](const RunStatus::Question& open) { return open.decision == decision; });
}

std::optional<StopRun> OperatorDesk::apply_orders(Nanos now, bool trains, bool shown) {
  if (Clock::now() - looked_ < kOrdersLook) return {};
  looked_ = Clock::now();
  const double oldest = to_seconds(now) - kAnswerPatience;
  std::erase_if(questions_, [&](const RunStatus::Question& open) { return open.at_s < oldest; });
  if (!trains) return {};
  // The command line uses the name of a removed file again: the file is then a new order.
  std::erase_if(done_, [](const auto& each) {
    return each.second ? *each.second == Removal::removed : is_absent(each.first);
  });
  for (const Order& order : read_orders(folder_)) {
    const auto [known, is_new] = done_.try_emplace(order.file);
    if (is_new) {
      carry_out(order, now);
    } else if (shown && (!known->second || *known->second == Removal::failed)) {
      known->second = remove_order(order.file);
    }
  }
  return find_stop_order();
}

/// The files of applied orders are removed once the policies have seen the changes, because the
/// changes are in the journal then.
std::shared_ptr<OperatorDesk::RemovalState> OperatorDesk::remove_order(const std::string& file) {
  auto state = std::make_shared<RemovalState>(Removal::pending);
  removals_.add_job([file, state] {
    const bool is_removed = std::remove(file.c_str()) == 0 || errno == ENOENT;
    *state = is_removed ? Removal::removed : Removal::failed;
  });
  return state;
}

std::optional<StopRun> OperatorDesk::find_stop_order() const {
  std::ifstream file(folder_ + "/" + kStopFile);
  if (!file) return {};
  std::string how;
  file >> how;
  StopRun stop;
  stop.set_reason(std::string(kStoppedByOperator));
  stop.set_checkpoint(how == "checkpoint");
  return stop;
}

void OperatorDesk::carry_out(const Order& order, Nanos now) {
  std::string fault = order.fault;
  if (order.verdict) {
    forget_question(order.verdict->decision);
    verdicts_.push_back(*order.verdict);
    run_.happen(Tick{});  // The verdict is read with the next observation.
  } else if (order.set) {
    fault = run_.objection(*order.set);
    if (fault.empty()) run_.happen(*order.set);
  } else if (order.removal) {
    fault = run_.announce(*order.removal);
  }
  if (!fault.empty()) board_.add_line(now, std::string(kOrderRefused) + fault);
}

void OperatorDesk::fill(RunStatus& status) const {
  status.questions = questions_;
  status.decisions = outcomes_;
  status.without_takeover = without_takeover_;
}

void OperatorDesk::fill(Report& report) const {
  for (const std::string& warning : warnings_) report.add_warnings(warning);
}

}  // namespace orrery::live
