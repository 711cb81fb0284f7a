#include "core/error.hpp"

#include <algorithm>
#include <vector>

namespace orrery {
namespace {

/// Returns `text` with '?' for each control character: the terminal would obey such characters.
std::string printable(std::string text) {
  const auto obeyed = [](char c) {
    return c != '\t' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f);
  };
  std::replace_if(text.begin(), text.end(), obeyed, '?');
  return text;
}

std::string render(const std::optional<SourcePlace>& place, const std::string& message) {
  if (!place) return "error: " + message;
  std::string head = place->file + ":" + std::to_string(place->line) + ":" +
                     std::to_string(place->column) + ": error: " + message;
  if (place->line_text.empty()) return head;
  // Tabs stay tabs in the caret line, so that the caret is printed under its column.
  std::string indent;
  const auto column = static_cast<std::size_t>(std::max(place->column, 1) - 1);
  for (std::size_t i = 0; i < column; ++i) {
    indent += i < place->line_text.size() && place->line_text[i] == '\t' ? '\t' : ' ';
  }
  if (column > place->line_text.size()) return head + "\n  " + printable(place->line_text);
  return head + "\n  " + printable(place->line_text) + "\n  " + indent + "^";
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

Error::Error(ErrorKind kind, std::string message)
    : kind_(kind), message_(std::move(message)), rendered_(render({}, message_)) {}

Error::Error(SourcePlace place, std::string message)
    : kind_(ErrorKind::bad_input),
      message_(std::move(message)),
      place_(std::move(place)),
      rendered_(render(place_, message_)) {}

std::string_view nearest_name(std::string_view name, std::span<const std::string> candidates) {
  std::string_view best;
  std::size_t best_distance = std::min<std::size_t>(3, (name.size() + 2) / 3) + 1;
  if (name.size() > 100) return best;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> candidates) {
  const std::string_view near = nearest_name(name, candidates);
  return near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?";
}

std::string line_of(std::string_view text, int line) {
  for (int i = 1; i < line; ++i) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, std::min<std::size_t>(text.find('\n'), 200));
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  return std::string(text);
}

void ensure(bool condition, std::string_view invariant) {
  if (condition) return;
  throw Error(ErrorKind::internal, "broken invariant: " + std::string(invariant));
}

}  // namespace orrery
