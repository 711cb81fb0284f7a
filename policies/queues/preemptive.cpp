#include "policies/queues/preemptive.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "policies/queues/granted_gpus.hpp"

namespace orrery {

// ---- where jobs stand -----------------------------------------------------------------------

void PreemptivePolicy::file(Track& job) {
  job.place.turn = turns_++;
  job.place.key = key_of(job);
  line_of(job).insert(job.gpus, job.place);
}

void PreemptivePolicy::file_anew(JobId id) {
  Track& job = jobs_.at(id);
  line_of(job).erase(job.gpus, job.place);
  job.place.key = key_of(job);
  line_of(job).insert(job.gpus, job.place);
}

void PreemptivePolicy::take_out(Track& job) {
  line_of(job).erase(job.gpus, job.place);
  if (!job.running) return;
  running_gpus_ -= job.gpus;
  on_idle(job);
}

void PreemptivePolicy::begin(Track& job, Nanos now) {
  take_out(job);
  job.running = true;
  job.since = now;
  running_gpus_ += job.gpus;
  file(job);
  runs(job);
}

void PreemptivePolicy::stop(Track& job, Nanos now) {
  take_out(job);
  job.running = false;
  job.served += now - job.since;
  file(job);
}

void PreemptivePolicy::enter_queue(const JobInfo& info, Nanos now) {
  const auto [known, fresh] = jobs_.find_or_add(info.spec.id);
  Track& job = *known;
  if (!fresh) {
    if (job.running) stop(job, now);
    return;
  }
  job.gpus = info.spec.gpus;
  job.priority = info.spec.priority;
  job.place = {.submit = info.spec.submit, .job = info.spec.id, .estimate = info.spec.estimate};
  job.served = std::llround(info.gpu_seconds / std::max(1u, job.gpus)) * kNanosPerSecond;
  file(job);
}

void PreemptivePolicy::run(const JobInfo& info, Nanos since) {
  enter_queue(info, since);
  Track& job = jobs_.at(info.spec.id);
  if (job.running && job.since == since) return;  // the job runs as decided
  if (job.running) stop(job, since);
  begin(job, since);
}

void PreemptivePolicy::remove_job(const JobInfo& info) {
  Track* const known = jobs_.find(info.spec.id);
  if (known == nullptr) return;
  take_out(*known);
  jobs_.remove_job(info.spec.id);
}

void PreemptivePolicy::clear() {
  jobs_.for_each([this](JobId, const Track& job) {
    if (job.running) on_idle(job);
  });
  jobs_.clear();
  waiting_.clear();
  running_.clear();
  running_gpus_ = 0;
  turns_ = 0;
}

Needs PreemptivePolicy::needs() const {
  Needs needs = QueuePolicy::needs();
  needs.gpu_kinds = true;
  return needs;
}

void PreemptivePolicy::save(Archive& archive) const {
  for (const JobLines* lines : {&waiting_, &running_}) {
    archive += std::to_string(lines->size()) + " " + std::to_string(lines->digest()) + " ";
  }
}

// ---- who is to run --------------------------------------------------------------------------

struct PreemptivePolicy::Lane {
  std::uint32_t gpus;
  const JobLine* line;
  JobLine::Cursor at;
};

/// One walk through all jobs in order. Running jobs between two waiting ones stay together where
/// they all fit: then they are only counted.
class PreemptivePolicy::Selecting {
 public:
  Selecting(const PreemptivePolicy& of, Nanos now, std::uint64_t quota)
      : of_(of),
        now_(now),
        quota_(quota),
        waiting_(lanes(of.waiting_)),
        running_(lanes(of.running_)) {}

  Selection select() {
    while (true) {
      Lane* const lane = first(waiting_, quota_, false);
      const JobPlace* const next = lane == nullptr ? nullptr : lane->line->get(lane->at);
      keep_running(next, lane == nullptr ? 0 : lane->gpus);
      if (lane == nullptr) return std::move(selection_);
      lane->line->advance_cursor(lane->at);
      if (lane->gpus > quota_) continue;
      quota_ -= lane->gpus;
      selection_.on.push_back(next->job);
    }
  }

 private:
  static std::vector<Lane> lanes(const JobLines& lines) {
    std::vector<Lane> lanes;
    for (const auto& [gpus, line] : lines.by_size()) {
      if (!line.empty()) lanes.push_back({gpus, &line, {}});
    }
    return lanes;
  }
  Order order(const JobPlace& place, std::uint32_t gpus, bool running) const {
    return of_.order_of(place, gpus, running, now_);
  }
  /// The lane whose next job goes first, among sizes of at most `most` GPUs.
  Lane* first(std::vector<Lane>& lanes, std::uint64_t most, bool running) const {
    Lane* found = nullptr;
    Order best;
    for (Lane& lane : lanes) {
      const JobPlace* const place = lane.gpus > most ? nullptr : lane.line->get(lane.at);
      if (place == nullptr) continue;
      const Order here = order(*place, lane.gpus, running);
      if (found != nullptr && best < here) continue;
      found = &lane;
      best = here;
    }
    return found;
  }
  /// Those that go before `next`; without it all that are left.
  void keep_running(const JobPlace* next, std::uint32_t gpus) {
    const Order limit = next == nullptr ? Order{} : order(*next, gpus, false);
    std::vector<JobLine::Cursor> stops;
    std::uint64_t need = 0;
    std::size_t count = 0;
    for (const Lane& lane : running_) {
      JobLine::Cursor& stop = stops.emplace_back(lane.at);
      const std::size_t here = lane.line->skip_while(stop, [&](const JobPlace& place) {
        return next == nullptr || order(place, lane.gpus, true) < limit;
      });
      need += here * lane.gpus;
      count += here;
    }
    if (need <= quota_) {
      quota_ -= need;
      for (std::size_t i = 0; i < running_.size(); ++i) running_[i].at = stops[i];
      return;
    }
    for (; count > 0; --count) {
      Lane& lane = *first(running_, ~std::uint64_t{0}, true);
      const JobPlace& place = *lane.line->get(lane.at);
      lane.line->advance_cursor(lane.at);
      if (lane.gpus <= quota_) {
        quota_ -= lane.gpus;
      } else {
        selection_.off.push_back(place.job);
      }
    }
  }

  const PreemptivePolicy& of_;
  const Nanos now_;
  std::uint64_t quota_;
  std::vector<Lane> waiting_, running_;
  Selection selection_;
};

/// The same walk on a cluster with several kinds of GPUs, job by job.
PreemptivePolicy::Selection PreemptivePolicy::select_by_kind(const Observation& seen) const {
  struct Turn {
    Order order;
    JobId job;
    const Track* track;
  };
  const FreeKinds& kinds = free_kinds();
  std::vector<std::uint64_t> left;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) left.push_back(kinds.total(kind));
  std::vector<Turn> turns;
  jobs_.for_each([&](JobId id, const Track& job) {
    if (job.running) left[kinds.kind_of(granted_gpus(seen.jobs[id]))] += job.gpus;
    turns.push_back({order_of(job.place, job.gpus, job.running, seen.now), id, &job});
  });
  std::sort(turns.begin(), turns.end(),
            [](const Turn& a, const Turn& b) { return a.order < b.order; });
  Selection selection;
  for (const Turn& turn : turns) {
    const JobInfo& info = seen.jobs[turn.job];
    const bool running = turn.track->running;
    const std::vector<std::size_t> order =
        running ? std::vector{kinds.kind_of(granted_gpus(info))} : kinds.order_for(info.spec);
    const auto found = std::find_if(order.begin(), order.end(), [&](std::size_t kind) {
      return turn.track->gpus <= left[kind];
    });
    if (found != order.end()) left[*found] -= turn.track->gpus;
    if (running && found == order.end()) selection.off.push_back(turn.job);
    if (!running && found != order.end()) selection.on.push_back(turn.job);
  }
  return selection;
}

void PreemptivePolicy::dispatch_jobs(const Observation& seen, DecisionList& decisions) {
  if (!waiting_.empty()) {
    const Selection selection =
        free_kinds().empty()
            ? Selecting(*this, seen.now, free_gpus().total() + running_gpus_).select()
            : select_by_kind(seen);
    preempt_jobs(seen, selection.off, decisions);
    start_jobs(seen, selection.on, decisions);
  }
  after_pass(decisions);
}

void PreemptivePolicy::preempt_jobs(const Observation& seen, const std::vector<JobId>& jobs,
                                    DecisionList& decisions) {
  for (const JobId id : jobs) {
    decisions.add(Assign{.job = id}, "makes room");
    return_gpus(granted_gpus(seen.jobs[id]));
    stop(jobs_.at(id), seen.now);
    taken_off_at_ = seen.now;
  }
}

void PreemptivePolicy::start_jobs(const Observation& seen, const std::vector<JobId>& jobs,
                                  DecisionList& decisions) {
  std::set<std::uint32_t> closed;  // sizes that could not be placed: less and less is free
  for (const JobId id : jobs) {
    const JobSpec& spec = seen.jobs[id].spec;
    if (closed.contains(spec.gpus)) continue;
    std::optional<GpuRuns> gpus = place_job(spec);
    if (!gpus) {
      if (!is_choosy(spec)) closed.insert(spec.gpus);
      continue;
    }
    decisions.add(Assign{id, std::move(*gpus), spec.layout}, reason());
    begin(jobs_.at(id), seen.now);
  }
}

}  // namespace orrery
