// The part of LiveBackend that faces its operator: what the run stands at, and orders that end it.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "live/run/live_backend.hpp"
#include "live/run/run_files.hpp"
#include "policies/run/registry.hpp"

namespace orrery::live {
namespace {

constexpr std::chrono::milliseconds kLook{200};
constexpr double kPatience = 60;  // seconds; a question is a no after that (HandOverRules)

}  // namespace

RunStatus LiveBackend::status() const {
  RunStatus status;
  status.scenario = scenario_.name();
  status.mode = request_.mode();
  status.phase = stage_ != Stage::training ? "starting"
                 : !stop_reason_.empty()   ? "stopping"
                 : held_since_ != kNever   ? "held"
                                           : "training";
  if (stage_ == Stage::over || stage_ == Stage::ended) status.phase = "over";
  status.step = step_;
  status.steps = scenario_.run().steps();
  for (const PolicySpec& policy : scenario_.policies()) status.policies.push_back(policy.name());
  status.questions = questions_;
  status.elapsed_s = to_seconds(account_.elapsed());
  status.step_time_s = to_seconds(took_);
  status.loss = account_.newest_loss();
  status.losses = failures_.all().size();
  status.decisions = outcomes_;
  status.controller_restarts = supervision_.start().restarts();
  status.checkpoints_written = checkpoints_.written();
  status.checkpoints_failed = checkpoints_.failed();
  if (crew_ == nullptr || world_.jobs().empty()) return status;
  status.epoch = crew_->epoch();
  if (job().saved_at > 0) status.saved = job().saved;
  const std::vector<std::uint32_t> members = crew_->members();
  for (std::uint32_t seat = 0; seat < ranks_; ++seat) {
    const bool member = std::find(members.begin(), members.end(), seat) != members.end();
    const bool there = crew_->running(seat);
    const auto [step, micro_batches] = watch_.at(seat);
    status.ranks.push_back(
        {.rank = seat,
         .state = member  ? "working"
                  : there ? "joining"
                          : "lost",
         .pid = there ? crew_->pid(seat) : 0,
         .step = step,
         .micro_batches = micro_batches,
         .device = there && devices_.contains(seat) ? devices_.at(seat) : DeviceReading()});
  }
  return status;
}

/// The step under way is still carried through, and one more if a checkpoint is to follow it.
void LiveBackend::stop_after_step(const std::string& reason, bool with_checkpoint) {
  if (stage_ != Stage::training || !stop_reason_.empty()) return;
  stop_reason_ = reason;
  board_.note(now(), "the run is to end: " + reason);
  if (with_checkpoint && checkpoints_.kept()) checkpoints_.ask();
}

void LiveBackend::asked(const Decision& decision) {
  questions_.push_back({.decision = decision.id,
                        .at_s = to_seconds(now()),
                        .what = trace_line(decision),
                        .why = decision.why});
  board_.note(now(), fmt::format("decision {} asks: {}: {}", decision.id, trace_line(decision),
                                 decision.why));
}

void LiveBackend::carry_out(const Order& order) {
  std::string fault = order.fault;
  if (order.verdict) {
    std::erase_if(questions_, [&order](const RunStatus::Question& open) {
      return open.decision == order.verdict->decision;
    });
    verdicts_.push_back(*order.verdict);
    happen(Tick{});  // it is looked for with the next observation
  } else if (order.set && request_.policy_outside()) {
    fault = "the policies of this run decide in another process";
  } else if (order.set) {
    try {
      check_parameter(scenario_, *order.set, cluster_);
      happen(*order.set);
    } catch (const Error& error) {
      fault = error.message();
    }
  }
  if (!fault.empty()) board_.note(now(), "an order is refused: " + fault);
}

void LiveBackend::hear_operator() {
  if (const auto order = supervision_.take_stop()) {
    stop_after_step(order->reason(), order->checkpoint());
  }
  if (Clock::now() - looked_for_orders_ < kLook) return;
  looked_for_orders_ = Clock::now();
  const double oldest = to_seconds(now()) - kPatience;
  std::erase_if(questions_, [&](const RunStatus::Question& open) { return open.at_s < oldest; });
  if (stage_ != Stage::training) return;
  // What an order has changed is in the journal once the policies have been shown it.
  if (arriving_.empty()) {
    for (const std::string& file : std::exchange(orders_done_, {})) std::remove(file.c_str());
  }
  for (const Order& order : read_orders(supervision_.start().folder())) {
    if (orders_done_.insert(order.file).second) carry_out(order);
  }
  std::ifstream file(supervision_.start().folder() + "/" + kStopFile);
  if (!file) return;
  std::string how;
  file >> how;
  stop_after_step(std::string(kStoppedByOperator), how == "checkpoint");
}

}  // namespace orrery::live
