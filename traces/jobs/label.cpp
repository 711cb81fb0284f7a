#include "traces/jobs/label.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <map>
#include <memory>
#include <mutex>

namespace orrery {
namespace {

/// Table of all texts by number. Each block is twice as large as the block before and never moves,
/// so that a text is read by its number without a lock.
class Texts {
 public:
  std::uint32_t number_of(std::string_view text) {
    const std::lock_guard guard(lock_);
    const auto found = numbers_.find(text);
    if (found != numbers_.end()) return found->second;
    const auto number = static_cast<std::uint32_t>(numbers_.size() + 1);
    const Place at = place_of(number);
    if (at.index == 0) {
      made_[at.block] = std::make_unique<std::string[]>(std::size_t{1} << at.block);
      blocks_[at.block].store(made_[at.block].get(), std::memory_order_release);
    }
    std::string& kept = made_[at.block][at.index];
    kept = text;
    numbers_.emplace(kept, number);
    return number;
  }
  const std::string& text_of(std::uint32_t number) const {
    const Place at = place_of(number);
    return blocks_[at.block].load(std::memory_order_acquire)[at.index];
  }

 private:
  struct Place {
    std::uint32_t block, index;
  };
  static Place place_of(std::uint32_t number) {
    const auto block = static_cast<std::uint32_t>(std::bit_width(number)) - 1;
    return {block, number - (std::uint32_t{1} << block)};
  }

  std::mutex lock_;
  std::map<std::string_view, std::uint32_t> numbers_;
  std::array<std::unique_ptr<std::string[]>, 32> made_;
  std::array<std::atomic<const std::string*>, 32> blocks_{};
};

Texts& texts() {
  // Never destroyed: labels may outlive static objects.
  static auto& all = *new Texts;
  return all;
}

}  // namespace

std::uint32_t Label::keep_text(std::string_view text) { return texts().number_of(text); }

const std::string& Label::str() const {
  static const std::string none;
  return number_ == 0 ? none : texts().text_of(number_);
}

}  // namespace orrery
