// Max-min sharing of links without SimGrid. Rounds as SimGrid 3.32 does (model CM02, precisions
// 1e-5 and 1e-9), so that flows end at the same bits of the clock, at a fraction of the cost; a
// test compares both on random flows. Any number per process, one thread each. Units:
// sim/estimates/engine/link_shares.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "core/tables/huge_pages.hpp"
#include "sim/estimates/engine/engine.hpp"
#include "sim/estimates/engine/link_shares.hpp"

namespace orrery::estimates {

/// Flows that share links max-min. The rates of a flow and of all flows that it meets, directly or
/// through others, are computed anew when the flow starts or ends, or a link of theirs changes. For
/// example, a flow over links 0 and 1 and another over link 1, of bandwidth 10 each, get 5 each.
class MaxMinShares : public LinkShares {
 public:
  /// Constructs `links` links, and a clock that begins at `now`.
  MaxMinShares(std::uint32_t links, double now) : LinkShares(now), links_(links) {}

  void start_flow(std::uint32_t place, std::span<const std::uint32_t> links,
                  double units) override;
  void cancel_flow(std::uint32_t place) override;
  void set_bandwidth(std::uint32_t link, double bandwidth) override;
  void stop_at(double date) override;
  void wake_now() override { wake_due_ = true; }
  void pass_stops(double precision) override;
  void clear_stops() override { stops_.clear(); }
  void run() override;
  bool can_rewind() const override { return true; }
  void set_flows_aside() override;
  void set_clock(double date) override { now_ = date; }
  void continue_flows() override;

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// Use of one link by one flow, in the list of the link's uses.
  struct Use {
    std::uint32_t link = 0, flow = 0;
    double weight = 0;                            ///< times that the flow crosses the link
    std::uint32_t newer = kNone, older = kNone;   ///< neighbours in the list of the link
    bool is_open = false;                         ///< the flow has no rate yet (fill_links())
  };
  /// Half a cache line, so that no link needs two.
  struct alignas(32) Link {
    double bandwidth = 1;
    std::uint64_t round = 0;                       ///< newest round in which its flows change
    std::uint32_t flows = 0;                       ///< number of its uses
    std::uint32_t newest = kNone, oldest = kNone;  ///< list of its uses
    std::uint32_t open = kNone;                    ///< index in open_, while flows have no rate
  };
  struct Flow {
    std::vector<std::uint32_t> uses;
    double units = 0, since = 0;   ///< units left at the instant `since`
    double rate = 0;               ///< rate since then
    double bound = 0;              ///< bandwidth of its narrowest link when it started
    double share = 0;              ///< newest rate
    double end = kNever;           ///< date of its end at its newest rate
    std::uint32_t active = kNone;  ///< index in active_; kNone: ended, or no flow
    std::uint64_t round = 0;       ///< newest round in which the flow counts in met_
    std::size_t collected = 0;     ///< uses whose links are collected in that round
    bool is_plain = true;          ///< crosses each link once, and `bound` is still right
    bool is_fixed = false;         ///< is in fixed_
    bool is_renewed = false;       ///< is in renewed_
  };
  /// Link with flows that have no rate yet, and the rate at which these would fill the link.
  struct Open {
    std::uint32_t link;
    double rate;
    double left, weight;  ///< bandwidth and weights of the flows without a rate
  };

  void add_use(std::uint32_t place, std::uint32_t link);
  void remove_uses(Flow& flow);
  /// Computes the rates of the flows of the touched links, and of those that they meet.
  void share_links();
  /// Returns a link that is the narrowest one of each of so many flows: all in progress, or all
  /// that have been collected. Returns kNone without such a link.
  std::uint32_t narrowest_of(std::size_t flows) const;
  bool is_narrowest_of(std::uint32_t link, std::size_t flows) const;
  /// Collects the links, and counts the flows, that a link reaches.
  void collect_changed(std::uint32_t first);
  void fill_links();
  void open_links();
  /// Collects the flows of the links that are full first, and returns the rate at which they are.
  double collect_fixed();
  void fix_flow(std::uint32_t place, double rate);
  /// Computes the ends of the flows with new rates.
  void renew_ends();
  /// Advances the clock to the next end of a flow, stop or requested call; false if none is left.
  bool advance_clock();
  bool pass_due_stops();
  void report_ends();
  void deactivate(Flow& flow);

  HugeVector<Link> links_;
  HugeVector<Flow> flows_;  ///< flows by place
  HugeVector<Use> uses_;
  std::vector<std::uint32_t> free_uses_;
  std::vector<std::uint32_t> active_;   ///< places of the flows in progress
  std::vector<std::uint32_t> aside_;    ///< places of the flows that were set aside
  std::vector<std::uint32_t> ended_;    ///< places of the flows that ended, not reported
  std::vector<std::uint32_t> touched_;  ///< links with another flow, or another bandwidth
  std::vector<std::uint32_t> changed_;  ///< links whose flows need new rates
  std::vector<Open> open_;
  std::vector<std::uint32_t> fixed_;    ///< flows that get the present rate of share_links()
  std::vector<std::uint32_t> renewed_;  ///< flows with new rates
  std::vector<double> stops_;           ///< dates, the earliest last
  std::vector<std::uint32_t> to_collect_;  ///< next use of each link that is being collected
  std::uint32_t met_ = 0;               ///< flows that change in this round
  std::uint32_t narrowest_ = kNone;     ///< narrowest link of all flows in progress, the last time
  std::uint64_t round_ = 1;             ///< number of this computation of rates
  bool wake_due_ = false;
};

/// Returns an engine whose flows share links in MaxMinShares, with a clock that begins at `now`
/// seconds. A process may have any number.
std::unique_ptr<Engine> max_min_engine(std::uint32_t hosts, std::uint32_t links, double now);

}  // namespace orrery::estimates
