#include "traces/models/torchtitan_toml.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.hpp"
#include "core/schema/yaml_loader.hpp"
#include "core/schema/yaml_tree.hpp"
#include "traces/workload/model.hpp"

namespace orrery {
namespace {

/// Flavor of torchtitan with the same sizes as a shipped model.
struct Flavor {
  std::string_view model, flavor, preset;
};
constexpr std::array kFlavors{
    Flavor{"llama3", "8B", "llama3-8b"},         Flavor{"llama3", "70B", "llama3-70b"},
    Flavor{"llama3", "405B", "llama3-405b"},     Flavor{"deepseek_v3", "671B", "deepseek-v3"},
    Flavor{"qwen3", "30B-A3B", "qwen3-30b-a3b"}, Flavor{"qwen3", "235B-A22B", "qwen3-235b-a22b"},
};

std::string_view trimmed(std::string_view text) {
  const std::string_view blank = " \t\r";
  const std::size_t begin = text.find_first_not_of(blank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

/// Returns the line without a comment; a '#' in quotes begins none.
std::string_view without_comment(std::string_view line) {
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quote != 0) {
      if (line[i] == quote) quote = 0;
    } else if (line[i] == '"' || line[i] == '\'') {
      quote = line[i];
    } else if (line[i] == '#') {
      return line.substr(0, i);
    }
  }
  return line;
}

/// Values of a TOML text by "table.key", as they are written, without their quotes.
class TomlText {
 public:
  TomlText(std::string_view text, const std::string& file) : text_(text), file_(file) {
    std::string table;
    std::size_t begin = 0;
    bool in_list = false;
    for (int line = 1; begin <= text.size(); ++line) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view raw = text.substr(begin, end - begin);
      begin = end + 1;
      const std::string_view content = trimmed(without_comment(raw));
      if (content.empty()) continue;
      const int column = static_cast<int>(content.data() - raw.data()) + 1;
      if (in_list) {
        in_list = !content.ends_with(']');
      } else if (content.front() == '[' && content.back() == ']') {
        table = trimmed(content.substr(1, content.size() - 2));
      } else {
        in_list = add_value(table, content, line, column);
      }
    }
  }

  std::string word(const std::string& path) const {
    const auto found = values_.find(path);
    return found == values_.end() ? std::string() : found->second.text;
  }
  /// Returns a whole number from 1 on; 0 if the file has none, or a number that stands for another
  /// value (-1).
  std::uint32_t count(const std::string& path, std::uint32_t most) const {
    const std::string text = word(path);
    if (text.empty() || text.starts_with('-')) return 0;
    std::uint32_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem == std::errc() && end == text.data() + text.size() && value >= 1 && value <= most) {
      return value;
    }
    throw_error(path, fmt::format("expected a whole number from 1 to {} for '{}', found '{}'", most,
                                  path, shown(text)));
  }
  [[noreturn]] void throw_error(const std::string& path, const std::string& message) const {
    const auto found = values_.find(path);
    const int line = found == values_.end() ? 1 : found->second.line;
    const int column = found == values_.end() ? 1 : found->second.column;
    throw Error(place_in(text_, file_, line, column), message);
  }

 private:
  struct Value {
    std::string text;
    int line = 1, column = 1;
  };

  /// Returns true if a list begins in this line and goes on in the next.
  bool add_value(const std::string& table, std::string_view content, int line, int column) {
    const std::size_t equals = content.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      throw Error(place_in(text_, file_, line, column),
                  "expected '[table]' or 'key = value' of a TOML file");
    }
    std::string_view value = trimmed(content.substr(equals + 1));
    const bool is_list = value.starts_with('[') && !value.ends_with(']');
    if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
        value.back() == value.front()) {
      value = value.substr(1, value.size() - 2);
    }
    values_[fmt::format("{}.{}", table, trimmed(content.substr(0, equals)))] = {std::string(value),
                                                                                line, column};
    return is_list;
  }

  std::string_view text_;
  const std::string& file_;
  std::map<std::string, Value> values_;
};

std::string preset_of(const TomlText& in) {
  const std::string model = in.word("model.name"), flavor = in.word("model.flavor");
  std::vector<std::string> known;
  for (const Flavor& each : kFlavors) {
    if (each.model == model && each.flavor == flavor) return std::string(each.preset);
    known.push_back(fmt::format("{} {}", each.model, each.flavor));
  }
  in.throw_error("model.flavor",
                 fmt::format("expected a flavor of torchtitan whose sizes are known ({}), "
                             "found '{} {}'",
                             fmt::join(known, ", "), shown(model), shown(flavor)));
}

}  // namespace

bool has_torchtitan_model(std::string_view text) {
  return text.find("[model]") != std::string_view::npos &&
         text.find("flavor") != std::string_view::npos;
}

Decoder read_torchtitan(std::string_view text, const std::string& file, NamedBatch& batch) {
  const TomlText in(text, file);
  Decoder out;
  out.family = "torchtitan";
  const std::string preset = preset_of(in);
  out.model.set_preset(preset);
  resolve(out.model, SourceMap{}, "model");
  out.model.clear_preset();
  out.small.shared_inner =
      double{1} * out.model.experts().shared() * expert_feed_forward(out.model);
  out.assumed.push_back(fmt::format("sizes of the shipped model {}", preset));
  batch.sequence_length = in.count("training.seq_len", 100'000'000);
  batch.global_batch = in.count("training.global_batch_size", 100'000'000);
  batch.micro_batch = std::max(in.count("training.local_batch_size", 1'000'000),
                               in.count("training.batch_size", 1'000'000));
  finish_decoder(out, file);
  return out;
}

}  // namespace orrery
