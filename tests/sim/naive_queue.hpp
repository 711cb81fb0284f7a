// Independent program for the semantics of job queues: no events, no index, lists that are sorted
// and walked from their begin at every instant. The policies' decisions are compared with it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "traces/jobs/job_trace.hpp"

namespace orrery::sim {

/// Reference implementation of job queues.
struct NaiveQueue {
  std::vector<TraceJob> jobs;
  std::size_t nodes, size;
  std::string policy;
  bool consolidated;
  std::vector<std::int64_t> start = {}, end = {}, left = {}, had = {};
  /// one map for each job: GPUs by node
  std::vector<std::map<std::size_t, std::uint32_t>> held = {};
  std::vector<std::uint32_t> free = {};
  std::vector<std::size_t> waiting = {}, running = {};
  std::uint64_t preemptions = 0;
  std::int64_t now = 0;
  // Cost of a continuation, and nodes that are down.
  std::int64_t restart = 0, checkpoint = 0;  ///< 0: a failed node takes all that was done
  struct Down {
    std::size_t node;
    std::int64_t begin, end;
    bool planned;
  };
  std::vector<Down> downs = {};
  std::vector<std::int64_t> delay = {};  ///< part of `left` before the job progresses
  std::vector<bool> stopped = {};        ///< ever
  std::uint64_t struck = 0;
  std::int64_t failed_at = -1;

  std::uint32_t all_free() const {
    std::uint32_t all = 0;
    for (const std::uint32_t f : free) all += f;
    return all;
  }
  bool place_job(std::size_t job) {
    std::uint32_t need = jobs[job].gpus;
    if (need > all_free()) return false;
    std::map<std::size_t, std::uint32_t> taken;
    if (!consolidated) {
      for (std::size_t n = 0; n < nodes && need > 0; ++n) {
        const std::uint32_t here = std::min(need, free[n]);
        if (here > 0) taken[n] = here;
        need -= here;
      }
    } else {
      std::uint32_t whole = need > size ? need / std::uint32_t(size) : 0;
      need -= whole * std::uint32_t(size);
      for (std::size_t n = 0; n < nodes && whole > 0; ++n) {
        if (free[n] == size) taken[n] = std::uint32_t(size), --whole;
      }
      if (whole > 0) return false;
      std::size_t best = nodes;
      for (std::size_t n = nodes; need > 0 && n-- > 0;) {
        const bool fits = free[n] >= need && !taken.contains(n);
        if (fits && (best == nodes || free[n] <= free[best])) best = n;
      }
      if (need > 0 && best == nodes) return false;
      if (need > 0) taken[best] = need;
    }
    for (const auto& [n, count] : taken) free[n] -= count;
    held[job] = taken;
    return true;
  }
  void release(std::size_t job) {
    for (const auto& [n, count] : held[job]) free[n] += is_down(n) ? 0 : count;
    held[job].clear();
  }
  bool is_down(std::size_t node) const {
    return std::any_of(downs.begin(), downs.end(), [&](const Down& d) {
      return d.node == node && d.begin <= now && now < d.end;
    });
  }
  /// It has lost its GPUs, or given them up.
  void take_off(std::size_t job) {
    release(job);
    std::erase(running, job);
    waiting.push_back(job);
    stopped[job] = true;
    left[job] -= delay[job];
    delay[job] = 0;
  }
  void fail_nodes() {
    std::map<std::size_t, bool> fails;  // jobs; not planned
    for (std::size_t n = 0; n < nodes; ++n) {
      bool begins = false, planned = true, was = false, ends = false;
      for (const Down& d : downs) {
        begins = begins || (d.node == n && d.begin == now);
        ends = ends || (d.node == n && d.end == now);
        was = was || (d.node == n && d.begin < now && now < d.end);
        if (d.node == n && d.begin == now) planned = planned && d.planned;
      }
      if (ends && !is_down(n)) free[n] = std::uint32_t(size);
      if (!begins || was) continue;
      for (const std::size_t job : running) {
        if (held[job].contains(n)) fails[job] = fails[job] || !planned;
      }
      free[n] = 0;
    }
    for (const auto& [job, unplanned] : fails) {
      take_off(job);
      if (!unplanned) continue;
      const std::int64_t done = jobs[job].duration_s - left[job];
      left[job] = jobs[job].duration_s - (checkpoint > 0 ? done / checkpoint * checkpoint : 0);
      ++struck;
    }
  }
  bool begin(std::size_t job) {
    if (!place_job(job)) return false;
    if (start[job] < 0) start[job] = now;
    if (stopped[job]) left[job] += delay[job] = restart;
    running.push_back(job);
    std::erase(waiting, job);
    return true;
  }

  // ---- passes -------------------------------------------------------------------------------
  void strict() {
    if (!downs.empty()) std::sort(waiting.begin(), waiting.end());
    if (policy == "sjf") {
      std::stable_sort(waiting.begin(), waiting.end(), [&](std::size_t a, std::size_t b) {
        return jobs[a].duration_s < jobs[b].duration_s;
      });
    }
    while (!waiting.empty() && begin(waiting.front())) {}
  }
  void skip_job() {
    if (!downs.empty()) std::sort(waiting.begin(), waiting.end());
    for (const std::size_t job : std::vector<std::size_t>(waiting)) begin(job);
  }
  void easy() {
    while (!waiting.empty() && begin(waiting.front())) {}
    if (waiting.empty()) return;
    const std::uint32_t need = jobs[waiting.front()].gpus;
    std::int64_t shadow = now, extra = std::int64_t(all_free()) - need;
    std::vector<std::pair<std::int64_t, std::uint32_t>> ends;
    for (const std::size_t job : running) ends.emplace_back(now + left[job], jobs[job].gpus);
    std::sort(ends.begin(), ends.end());
    std::int64_t sum = all_free();
    for (const auto& [at, gpus] : ends) {
      if (sum >= need) break;
      sum += gpus;
      shadow = at;
      extra = sum - need;
    }
    const std::vector<std::size_t> rest(waiting.begin() + 1, waiting.end());
    for (const std::size_t job : rest) {
      const bool short_enough = now + jobs[job].duration_s <= shadow;
      if (jobs[job].gpus > all_free() || (!short_enough && jobs[job].gpus > extra)) continue;
      if (begin(job) && !short_enough) extra -= jobs[job].gpus;
    }
  }
  /// Free GPUs second by second.
  void conservative() {
    std::int64_t horizon = 1;
    for (const TraceJob& job : jobs) horizon += job.duration_s + 1;
    std::vector<std::int64_t> at(std::size_t(horizon) + 1, all_free());
    for (const std::size_t job : running) {
      for (std::int64_t t = left[job]; t <= horizon; ++t) at[std::size_t(t)] += jobs[job].gpus;
    }
    for (const std::size_t job : std::vector<std::size_t>(waiting)) {
      const std::int64_t lasts = jobs[job].duration_s;
      const auto fits = [&](std::int64_t from) {
        for (std::int64_t t = from; t < from + std::max<std::int64_t>(lasts, 1); ++t) {
          if (t <= horizon && at[std::size_t(t)] < jobs[job].gpus) return false;
        }
        return true;
      };
      std::int64_t from = 0;
      while (from <= horizon && !fits(from)) ++from;
      if (from == 0 && !begin(job)) {
        from = 1;
        while (from <= horizon && !fits(from)) ++from;
      }
      for (std::int64_t t = from; t < from + lasts && t <= horizon; ++t) {
        at[std::size_t(t)] -= jobs[job].gpus;
      }
    }
  }
  std::int64_t key(std::size_t job) const {
    if (policy == "srtf") return left[job];
    if (policy == "srsf") return left[job] * jobs[job].gpus;
    const bool runs = std::find(running.begin(), running.end(), job) != running.end();
    if (policy == "priority") return -2 * std::int64_t{jobs[job].priority} + (runs ? 0 : 1);
    return had[job] <= 18000 ? 0 : 1;
  }
  bool is_waiting(std::size_t job) const {
    return std::find(waiting.begin(), waiting.end(), job) != waiting.end();
  }
  void preemptive() {
    std::vector<std::size_t> candidates = running;
    candidates.insert(candidates.end(), waiting.begin(), waiting.end());
    std::sort(candidates.begin(), candidates.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(key(a), jobs[a].submit_s, is_waiting(a), a) <
             std::tuple(key(b), jobs[b].submit_s, is_waiting(b), b);
    });
    std::size_t quota = all_free();
    for (const std::size_t job : running) quota += jobs[job].gpus;
    std::vector<std::size_t> on, off;
    for (const std::size_t job : candidates) {
      const bool runs = std::find(running.begin(), running.end(), job) != running.end();
      if (jobs[job].gpus <= quota) {
        quota -= jobs[job].gpus;
        if (!runs) on.push_back(job);
      } else if (runs) {
        off.push_back(job);
      }
    }
    for (const std::size_t job : off) {
      take_off(job);
      ++preemptions;
    }
    for (const std::size_t job : on) begin(job);
  }

  // ---- whoever is selected runs ---------------------------------------------------------------
  std::vector<std::int64_t> took = {};  ///< GPU-seconds of jobs that have ended

  /// Returns the largest chance to end within some amount divided by its cost, by definition.
  double gittins(std::int64_t a) const {
    double best = 0;
    for (const std::int64_t whole : took) {
      const std::int64_t d = whole - a;
      if (d <= 0) continue;
      std::int64_t ending = 0, takes = 0;
      for (const std::int64_t other : took) {
        if (other <= a) continue;
        ending += other - a <= d ? 1 : 0;
        takes += std::min(other - a, d);
      }
      best = std::max(best, double(ending) / double(takes));
    }
    return best;
  }
  double rho(std::size_t job) const {
    const double whole = double(std::max<std::int64_t>(jobs[job].duration_s, 1));
    const double alone =
        double(jobs[job].gpus) * double(running.size() + waiting.size()) / double(nodes * size);
    // A job of no length counts as one of a second.
    const double still = std::max(0.0, whole - double(jobs[job].duration_s - left[job]));
    return (double(now - jobs[job].submit_s) + still) / (whole * std::max(1.0, alone));
  }
  std::vector<std::size_t> in_line() const {
    std::vector<std::size_t> all = running;
    all.insert(all.end(), waiting.begin(), waiting.end());
    return all;
  }
  void run_only(const std::vector<std::size_t>& selected) {
    const auto chosen = [&](std::size_t job) {
      return std::find(selected.begin(), selected.end(), job) != selected.end();
    };
    for (const std::size_t job : std::vector<std::size_t>(running)) {
      if (chosen(job)) continue;
      release(job);
      std::erase(running, job);
      waiting.push_back(job);
      ++preemptions;
    }
    for (const std::size_t job : selected) {
      if (std::find(waiting.begin(), waiting.end(), job) != waiting.end()) begin(job);
    }
  }
  void by_key() {
    std::vector<std::size_t> all = in_line();
    std::map<std::size_t, double> keys;
    for (const std::size_t job : all) {
      keys[job] = policy == "gittins" ? gittins(had[job]) : rho(job);
    }
    std::sort(all.begin(), all.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(-keys[a], jobs[a].submit_s, is_waiting(a), a) <
             std::tuple(-keys[b], jobs[b].submit_s, is_waiting(b), b);
    });
    std::size_t quota = nodes * size;
    std::erase_if(all, [&](std::size_t job) {
      if (jobs[job].gpus > quota) return true;
      quota -= jobs[job].gpus;
      return false;
    });
    run_only(all);
  }
  /// Rounds in which the virtual cluster with least takes one job more.
  void by_cluster() {
    std::map<std::string, std::int64_t> used;
    std::vector<std::size_t> selected, rest;
    std::int64_t quota = std::int64_t(nodes * size);
    std::vector<std::size_t> all = in_line();
    std::sort(all.begin(), all.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(is_waiting(a), jobs[a].submit_s, a) <
             std::tuple(is_waiting(b), jobs[b].submit_s, b);
    });
    for (const std::size_t job : all) used[jobs[job].pool] = 0;
    const std::int64_t share = used.empty() ? 0 : quota / std::int64_t(used.size());
    const auto take = [&](std::size_t job) {
      used[jobs[job].pool] += jobs[job].gpus;
      quota -= jobs[job].gpus;
      selected.push_back(job);
    };
    for (const std::size_t job : all) {
      const bool runs = std::find(running.begin(), running.end(), job) != running.end();
      const std::int64_t with = used[jobs[job].pool] + jobs[job].gpus;
      const bool own = with <= share && jobs[job].gpus <= quota;
      if (policy == "drf" ? runs : own) {
        take(job);
      } else {
        rest.push_back(job);
      }
    }
    while (true) {
      std::size_t next = jobs.size();
      std::vector<std::string> seen;
      for (const std::size_t job : rest) {
        const std::string& pool = jobs[job].pool;
        const bool first = std::find(seen.begin(), seen.end(), pool) == seen.end();
        if (policy == "drf") seen.push_back(pool);  // jobs behind the first of a pool wait for it
        if (!first || jobs[job].gpus > quota) continue;
        if (policy != "drf") seen.push_back(pool);
        const auto key = [&](std::size_t j) {
          return std::tuple(used[jobs[j].pool], jobs[j].submit_s, j);
        };
        if (next == jobs.size() || key(job) < key(next)) next = job;
      }
      if (next == jobs.size()) break;
      take(next);
      std::erase(rest, next);
    }
    run_only(selected);
  }

  /// Slurm's multifactor priority from its definition, with half-life and maximal age of a week,
  /// and EASY backfill in that order.
  void multifactor() {
    const auto life = 7.0 * 86400;
    const auto counted = [&](std::int64_t seconds, std::int64_t ago) {
      return life / std::log(2) * (1 - std::exp2(-double(seconds) / life)) *
             std::exp2(-double(ago) / life);
    };
    std::map<std::string, double> used;
    double all = 0;
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      if (jobs[job].submit_s > now) continue;
      used[jobs[job].pool] += 0;
      if (end[job] >= 0) {
        used[jobs[job].pool] += jobs[job].gpus * counted(jobs[job].duration_s, now - end[job]);
      }
    }
    for (const std::size_t job : running) {
      used[jobs[job].pool] += jobs[job].gpus * counted(jobs[job].duration_s - left[job], 0);
    }
    for (const auto& [pool, seconds] : used) all += seconds;
    const auto priority = [&](std::size_t job) {
      const double part = all > 0 ? used[jobs[job].pool] / all : 0;
      const double age = std::min(1.0, double(now - jobs[job].submit_s) / life);
      return std::llround(100000 * std::exp2(-part * double(used.size()))) +
             std::llround(10000 * age);
    };
    std::stable_sort(waiting.begin(), waiting.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(-priority(a), jobs[a].submit_s, a) <
             std::tuple(-priority(b), jobs[b].submit_s, b);
    });
    const std::vector<std::size_t> order = waiting;
    std::int64_t quota = all_free(), shadow = INT64_MAX, extra = 0;
    std::vector<std::size_t> selected;
    bool blocked = false;
    for (const std::size_t job : order) {
      if (jobs[job].gpus > quota) {
        if (std::exchange(blocked, true)) continue;
        std::vector<std::pair<std::int64_t, std::int64_t>> ends;
        for (const std::size_t other : running) {
          ends.emplace_back(now + left[other], jobs[other].gpus);
        }
        for (const std::size_t other : selected) {
          ends.emplace_back(now + left[other], jobs[other].gpus);
        }
        std::sort(ends.begin(), ends.end());
        std::int64_t sum = quota;
        for (const auto& [at, gpus] : ends) {
          sum += gpus;
          if (sum < jobs[job].gpus) continue;
          shadow = at, extra = sum - jobs[job].gpus;
          break;
        }
        continue;
      }
      const bool in_time = !blocked || now + left[job] <= shadow;
      if (!in_time && jobs[job].gpus > extra) continue;
      if (!in_time) extra -= jobs[job].gpus;
      quota -= jobs[job].gpus;
      selected.push_back(job);
    }
    for (const std::size_t job : selected) begin(job);
  }

  // ---- the clock ----------------------------------------------------------------------------
  std::int64_t next(std::size_t arrived) const {
    std::int64_t at = arrived < jobs.size() ? std::int64_t{jobs[arrived].submit_s} : INT64_MAX;
    for (const Down& d : downs) {
      if (d.begin > now) at = std::min(at, d.begin);
      if (d.end > now) at = std::min(at, d.end);
    }
    for (const std::size_t job : running) {
      at = std::min(at, now + left[job]);
      if (policy != "las" || had[job] > 18000) continue;
      at = std::min(at, now + (18000 - had[job]) / jobs[job].gpus + 1);
    }
    return at;
  }
  void run() {
    free.assign(nodes, std::uint32_t(size));
    std::size_t arrived = 0;
    start.assign(jobs.size(), -1), end.assign(jobs.size(), -1), held.resize(jobs.size());
    had.assign(jobs.size(), 0), delay.assign(jobs.size(), 0), stopped.assign(jobs.size(), false);
    for (const TraceJob& job : jobs) left.push_back(job.duration_s);
    for (const Down& d : downs) free[d.node] = d.begin == 0 ? 0 : free[d.node];
    while (arrived < jobs.size() || !running.empty() || !waiting.empty()) {
      const std::int64_t at = next(arrived);
      for (const std::size_t job : running) {
        left[job] -= at - now;
        delay[job] -= std::min(delay[job], at - now);
        had[job] += (at - now) * jobs[job].gpus;
      }
      now = at;
      std::erase_if(running, [&](std::size_t job) {
        if (left[job] > 0) return false;
        end[job] = now;
        took.push_back(had[job]);
        release(job);
        return true;
      });
      if (!downs.empty() && std::exchange(failed_at, now) != now) fail_nodes();
      while (arrived < jobs.size() && jobs[arrived].submit_s <= now) waiting.push_back(arrived++);
      // Jobs of one size are never resized.
      if (policy == "fifo" || policy == "sjf" || policy == "elastic") strict();
      if (policy == "fifo-skip") skip_job();
      if (policy == "easy") easy();
      if (policy == "conservative") conservative();
      if (policy == "srtf" || policy == "srsf" || policy == "las" || policy == "priority") {
        preemptive();
      }
      if (policy == "gittins" || policy == "finish-time-fairness") by_key();
      if (policy == "drf" || policy == "max-min") by_cluster();
      if (policy == "multifactor") multifactor();
    }
  }
};

}  // namespace orrery::sim
