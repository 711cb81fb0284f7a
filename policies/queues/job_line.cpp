#include "policies/queues/job_line.hpp"

#include <utility>

#include "core/random.hpp"

namespace orrery {
namespace {

constexpr std::size_t kMostInBlock = 64;

std::uint64_t hash_of(std::uint32_t gpus, const JobPlace& place) {
  std::uint64_t hash = gpus;
  for (const std::uint64_t part :
       {std::uint64_t{place.job.value}, static_cast<std::uint64_t>(place.key), place.turn,
        static_cast<std::uint64_t>(place.estimate)}) {
    hash = Rng(hash ^ part).next();
  }
  return hash;
}

}  // namespace

void JobLine::Block::update_minimum() {
  least = kAnyEstimate;
  for (const JobPlace& place : places) least = std::min(least, place.estimate);
}

std::size_t JobLine::block_of(const JobPlace& place) const {
  const auto found =
      std::partition_point(blocks_.begin(), blocks_.end(),
                           [&place](const Block& block) { return block.places.back() < place; });
  return static_cast<std::size_t>(found - blocks_.begin());
}

void JobLine::insert(const JobPlace& place) {
  ++size_;
  std::size_t at = block_of(place);
  if (at == blocks_.size()) {  // behind all others
    if (blocks_.empty() || blocks_.back().places.size() >= kMostInBlock) blocks_.emplace_back();
    at = blocks_.size() - 1;
  }
  std::vector<JobPlace>& places = blocks_[at].places;
  places.insert(std::lower_bound(places.begin(), places.end(), place), place);
  blocks_[at].least = std::min(blocks_[at].least, place.estimate);
  if (places.size() <= kMostInBlock) return;
  const auto middle = places.begin() + static_cast<std::ptrdiff_t>(places.size() / 2);
  Block second{{middle, places.end()}};
  places.erase(middle, places.end());
  second.update_minimum();
  blocks_[at].update_minimum();
  blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at) + 1, std::move(second));
}

bool JobLine::erase(const JobPlace& place) {
  const std::size_t at = block_of(place);
  if (at == blocks_.size()) return false;
  std::vector<JobPlace>& places = blocks_[at].places;
  const auto found = std::lower_bound(places.begin(), places.end(), place);
  if (found == places.end() || place < *found) return false;
  const bool shortest = found->estimate == blocks_[at].least;
  places.erase(found);
  --size_;
  if (places.empty()) {
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at));
  } else if (shortest) {
    blocks_[at].update_minimum();
  }
  return true;
}

const JobPlace* JobLine::seek_place(Cursor& cursor, Nanos most) const {
  for (; cursor.block < blocks_.size(); ++cursor.block, cursor.at = 0) {
    const Block& block = blocks_[cursor.block];
    if (block.least > most) continue;
    for (; cursor.at < block.places.size(); ++cursor.at) {
      if (block.places[cursor.at].estimate <= most) return &block.places[cursor.at];
    }
  }
  return nullptr;
}

void JobLines::insert(std::uint32_t gpus, const JobPlace& place) {
  lines_[gpus].insert(place);
  if (has_digest_) digest_ ^= hash_of(gpus, place);
  ++size_;
}

void JobLines::erase(std::uint32_t gpus, const JobPlace& place) {
  const auto line = lines_.find(gpus);
  if (line == lines_.end() || !line->second.erase(place)) return;
  if (has_digest_) digest_ ^= hash_of(gpus, place);
  --size_;
}

void JobLines::clear() {
  lines_.clear();
  size_ = 0;
  has_digest_ = false;
}

std::uint64_t JobLines::digest() const {
  if (size_ == 0) return 0;
  if (!std::exchange(has_digest_, true)) {
    digest_ = 0;
    for (const auto& [gpus, line] : lines_) {
      line.for_each([&, size = gpus](const JobPlace& place) { digest_ ^= hash_of(size, place); });
    }
  }
  return digest_;
}

}  // namespace orrery
