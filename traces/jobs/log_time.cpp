#include "traces/jobs/log_time.hpp"

#include <charconv>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

namespace orrery {
namespace {

/// Unread rest of a text.
class Rest {
 public:
  explicit Rest(std::string_view text) : text_(text) {}

  bool take(char mark) {
    if (text_.empty() || text_.front() != mark) return false;
    text_.remove_prefix(1);
    return true;
  }
  /// Reads a whole number of `least` to `most` digits; nothing if the text has fewer digits.
  std::optional<int> digits(std::size_t least, std::size_t most) {
    std::size_t count = 0;
    int value = 0;
    while (count < most && count < text_.size() && text_[count] >= '0' && text_[count] <= '9') {
      value = 10 * value + (text_[count++] - '0');
    }
    if (count < least) return {};
    text_.remove_prefix(count);
    return value;
  }
  void skip_fraction() {
    if (!take('.')) return;
    while (!text_.empty() && text_.front() >= '0' && text_.front() <= '9') text_.remove_prefix(1);
  }
  bool over() const { return text_.empty(); }

 private:
  std::string_view text_;
};

std::optional<std::int64_t> plain_seconds(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || !(std::abs(value) < 1e12)) return {};
  return static_cast<std::int64_t>(std::floor(value));
}

/// Returns the offset at the end of an instant in seconds east of UTC; nothing if it is not valid.
std::optional<int> offset(Rest& rest) {
  if (rest.over() || rest.take('Z')) return rest.over() ? std::optional(0) : std::nullopt;
  const bool west = rest.take('-');
  if (!west && !rest.take('+')) return {};
  const std::optional<int> hours = rest.digits(2, 2);
  rest.take(':');
  const int minutes = rest.digits(2, 2).value_or(0);
  if (!hours || *hours > 14 || minutes > 59 || !rest.over()) return {};
  const int seconds = (*hours * 60 + minutes) * 60;
  return west ? -seconds : seconds;
}

}  // namespace

std::optional<std::int64_t> parse_instant(std::string_view text) {
  if (const auto seconds = plain_seconds(text)) return seconds;
  Rest rest(text);
  const auto year = rest.digits(4, 4);
  if (!year || !rest.take('-')) return {};
  const auto month = rest.digits(1, 2);
  if (!month || !rest.take('-')) return {};
  const auto day = rest.digits(1, 2);
  if (!day || (!rest.take(' ') && !rest.take('T'))) return {};
  const auto hour = rest.digits(1, 2);
  if (!hour || *hour > 23 || !rest.take(':')) return {};
  const auto minute = rest.digits(2, 2);
  if (!minute || *minute > 59) return {};
  int second = 0;
  if (rest.take(':')) {
    const auto given = rest.digits(2, 2);
    if (!given || *given > 60) return {};
    second = *given;
  }
  rest.skip_fraction();
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  const auto east = offset(rest);
  if (!east || !date.ok()) return {};
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  return ((days * 24 + *hour) * 60 + *minute) * 60 + second - *east;
}

std::string date_text(std::int64_t instant) {
  const std::chrono::sys_seconds at{std::chrono::seconds(instant)};
  const auto midnight = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(midnight);
  const std::chrono::hh_mm_ss time(at - midnight);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count());
}

std::optional<std::int64_t> parse_elapsed(std::string_view text) {
  Rest rest(text);
  std::int64_t days = 0;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    const auto given = rest.digits(1, 6);
    if (!given || !rest.take('-')) return {};
    days = *given;
  }
  std::int64_t seconds = 0;
  for (int parts = 0; parts < 3; ++parts) {
    const auto part = rest.digits(1, 6);
    if (!part) return {};
    seconds = 60 * seconds + *part;
    if (rest.take(':')) continue;
    rest.skip_fraction();
    const bool whole = parts == 2 || (parts == 1 && days == 0);
    if (!rest.over() || !whole) return {};
    return days * 86400 + seconds;
  }
  return {};
}

}  // namespace orrery
