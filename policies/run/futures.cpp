#include "policies/run/futures.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "policies/seam/saved_state.hpp"

namespace orrery {
namespace {

constexpr std::chrono::milliseconds kEndGrace{5000};

/// Collector of the results of futures. Forwards the results in the order in which the futures
/// began, although the processes may end in another order.
class Gathering {
 public:
  explicit Gathering(const std::function<void(const WorkerMessage&)>& tell) : tell_(tell) {}

  std::size_t under_way() const { return running_.size(); }
  void add(FutureEnd which, ChildProcess child) {
    running_.push_back({begun_++, std::move(which), std::move(child)});
  }

  /// Blocks until one more process has ended, and forwards all results that are next in order.
  void wait_for_one() {
    for (const std::size_t before = running_.size(); running_.size() == before;) {
      std::vector<pollfd> channels;
      for (const Running& each : running_) channels.push_back({each.child.channel(), POLLIN, 0});
      ::poll(channels.data(), channels.size(), -1);
      for (std::size_t i = channels.size(); i-- > 0;) {
        if (channels[i].revents == 0 || !read(running_[i])) continue;
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    pass_on();
  }

 private:
  struct Running {
    std::size_t index = 0;
    FutureEnd end;
    ChildProcess child;
  };

  /// Reads one message of a process. Returns true if the process has ended.
  bool read(Running& running) {
    std::optional<std::string> bytes;
    try {
      bytes = read_message(running.child.channel());
    } catch (const Error&) {  // the process died within a message
    }
    WorkerMessage message;
    if (bytes && !message.ParseFromString(*bytes)) bytes.reset();
    if (bytes && message.has_report()) {
      *running.end.mutable_report() = std::move(*message.mutable_report());
    } else if (bytes && message.has_failure()) {
      *running.end.mutable_failure() = std::move(*message.mutable_failure());
    } else if (bytes) {
      return false;  // progress
    }
    end(running);
    ended_[running.index] = std::move(running.end);
    return true;
  }

  void end(Running& running) {
    if (!running.child.wait_for(kEndGrace)) running.child.signal(SIGKILL);
    const ExitStatus status = running.child.wait();
    FutureEnd& end = running.end;
    if (end.has_report()) {
      end.mutable_report()->mutable_host()->set_cpu_s(status.cpu_s);
      end.mutable_report()->mutable_host()->set_peak_rss_bytes(
          static_cast<double>(status.peak_rss_bytes));
    }
    if (end.how_case() != FutureEnd::HOW_NOT_SET) return;
    end.mutable_failure()->set_kind(static_cast<std::uint32_t>(ErrorKind::internal));
    end.mutable_failure()->set_message(
        fmt::format("it ended before it reported: {}", status.description()));
  }

  void pass_on() {
    for (auto next = ended_.begin(); next != ended_.end() && next->first == told_; ++told_) {
      WorkerMessage message;
      *message.mutable_future() = std::move(next->second);
      tell_(message);
      next = ended_.erase(next);
    }
  }

  const std::function<void(const WorkerMessage&)>& tell_;
  std::vector<Running> running_;
  std::map<std::size_t, FutureEnd> ended_;
  std::size_t begun_ = 0, told_ = 0;
};

}  // namespace

bool has_unforked(const FuturesOrder& order) {
  return order.choices().empty() ||
         !std::all_of(order.choices().begin(), order.choices().end(), says_something);
}

void check_log_of_futures(const RunRequest& request) {
  if (request.record().empty() || has_unforked(request.futures())) return;
  throw Error(ErrorKind::usage,
              "futures: expected no log, because a log records the unchanged run and each of "
              "these futures has its own policies or decisions");
}

std::optional<std::uint64_t> Future::seed(std::uint64_t run_seed) const {
  if (number == 0) return {};
  return Rng(run_seed).split_stream(fmt::format("future {}", number)).next();
}

Future begin_futures(const FuturesOrder& order,
                     const std::function<void(const WorkerMessage&)>& tell) {
  const std::size_t at_once = order.at_once() > 0 ? order.at_once() : usable_cpus();
  const int choices = std::max(1, order.choices_size());
  Gathering gathering(tell);
  for (std::uint32_t number = 0; number < order.count(); ++number) {
    for (int choice = 0; choice < choices; ++choice) {
      if (gathering.under_way() >= at_once) gathering.wait_for_one();
      std::optional<ChildProcess> child = ChildProcess::fork_here();
      if (!child) {
        return {number, order.choices().empty() ? nullptr : &order.choices(choice)};
      }
      FutureEnd which;
      which.set_future(number);
      which.set_choice(static_cast<std::uint32_t>(choice));
      gathering.add(std::move(which), std::move(*child));
    }
  }
  while (gathering.under_way() > 0) gathering.wait_for_one();
  throw FuturesEnded();
}

Future only_future(const FuturesOrder& order) {
  const auto choice = static_cast<int>(order.only_choice());
  return {order.only_future(), order.choices().empty() ? nullptr : &order.choices(choice)};
}

void look_ahead(Step steps, FuturesReport& all) {
  const double at = to_seconds(all.at());
  for (FutureEnd& future : *all.mutable_futures()) {
    if (!future.has_report()) continue;
    const Report& report = future.report();
    const bool done = report.steps_completed() == steps;
    if (done) future.set_end_s(report.elapsed_s());
    const double end = done || all.until() == 0 ? report.elapsed_s() : to_seconds(all.until());
    const std::uint64_t ahead = report.steps_completed() - all.begun().steps_completed();
    future.set_steps_ahead(ahead);
    if (end <= at || !report.has_fault_free_step_time_s()) continue;
    const double fault_free = static_cast<double>(ahead) * report.fault_free_step_time_s();
    future.set_goodput_ahead(std::min(1.0, fault_free / (end - at)));
  }
}

// ---- the policies of a future -----------------------------------------------------------------

void Succession::replace_policies(std::unique_ptr<PolicyStack> heirs,
                                  std::vector<Decision> decisions) {
  waiting_ = std::move(heirs);
  given_ = std::move(decisions);
}

void Succession::replace_outside(std::vector<Decision> decisions) {
  ensure(outside_ != nullptr, "only policies outside the run have heirs there");
  ++outside_heirs_;
  given_ = std::move(decisions);
}

void Succession::observe(Context& context, const Observation& seen, DecisionList& decisions) {
  if (waiting_) take_over(context, seen.cluster);
  for (; outside_heirs_ > 0; --outside_heirs_) {
    const Needs needs = outside_->activate_heirs();
    if (tell_needs_) tell_needs_(needs);
  }
  current_->observe(context, seen, decisions);
  for (Decision& given : std::exchange(given_, {})) {
    Decision& taken = decisions.add(std::move(given.what), std::move(given.why));
    given.what = taken.what;
    given.why = taken.why;
    given.id = taken.id;
    taken = std::move(given);
    if (outside_ != nullptr) outside_->announce_decision(taken);
  }
}

void Succession::take_over(Context& context, const Cluster& cluster) {
  std::unique_ptr<PolicyStack> heirs = std::move(waiting_);
  heirs->start(context, cluster, nullptr);
  for (const PolicyStack::Member& heir : heirs->members()) {
    for (const PolicyStack::Member& member : members_->members()) {
      if (member.name != heir.name) continue;
      transfer_state(*member.policy, *heir.policy, heir.name);
    }
  }
  heirs_ = std::move(heirs);  // the previous ones have handed over their state
  current_ = heirs_.get();
  members_ = heirs_.get();
  if (tell_needs_) tell_needs_(current_->needs());
}

}  // namespace orrery
