#include "provider/form_choices.h"

#include <algorithm>
#include <string_view>

namespace tunableop {
namespace {

uint64_t Mixed(uint64_t hash, uint64_t value) noexcept {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 29U);
}

uint64_t HashOf(const FormKey& key) noexcept {
  uint64_t hash =
      Mixed(reinterpret_cast<uintptr_t>(key.group), static_cast<uint64_t>(key.type) << 9U |
                                                        static_cast<uint64_t>(key.precision) << 1U |
                                                        static_cast<uint64_t>(key.replayed));
  for (const int64_t size : key.sizes) hash = Mixed(hash, static_cast<uint64_t>(size));
  return hash;
}

}  // namespace

std::string ToString(const FormKey& key) {
  std::string text;
  for (size_t i = 0; i < key.group->sizes.size(); ++i) {
    if (key.sizes[i] == 0) continue;
    text += std::string(key.group->sizes[i]) + "=" + std::to_string(key.sizes[i]) + ",";
  }
  text += Name(key.type);
  if (key.precision != Precision::kExact) text += "," + std::string(Name(key.precision));
  if (key.replayed) text += ",graph";
  return text;
}

const FormChoice* FormChoices::Find(const FormKey& key) const noexcept {
  for (size_t at = HashOf(key);; ++at) {
    const FormChoice* choice = slots_[at % kSlots].load(std::memory_order_acquire);
    if (choice == nullptr || choice->key == key) return choice;  // some slots are always empty
  }
}

FormChoice* FormChoices::FindOrAdd(const FormKey& key, size_t usual) {
  const std::lock_guard lock(mutex_);
  size_t at = HashOf(key);
  while (FormChoice* choice = slots_[at % kSlots].load(std::memory_order_relaxed)) {
    if (choice->key == key) return choice;
    ++at;
  }
  static_assert(kMost < kSlots);
  if (choices_.size() == kMost) return nullptr;
  choices_.push_back(std::make_unique<FormChoice>(key, usual));
  slots_[at % kSlots].store(choices_.back().get(), std::memory_order_release);
  return choices_.back().get();
}

void FormChoices::Take(FormRecord record, std::string origin) {
  const std::lock_guard lock(mutex_);
  const Name name(record.group, record.shape);
  known_.insert_or_assign(name, Known{std::move(record), "loaded from " + std::move(origin)});
  for (const std::unique_ptr<FormChoice>& choice : choices_) {
    if (NameOf(*choice) == name) choice->settled.store(false);
  }
}

bool FormChoices::Adopt(FormChoice& choice, bool& changed, std::string& refused) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(NameOf(choice));
  if (found == known_.end()) return false;
  const std::span<const char* const> forms = choice.key.group->forms;
  const std::string& wanted = found->second.record.form;
  const auto form =
      std::find_if(forms.begin(), forms.end(), [&](const char* name) { return wanted == name; });
  if (form == forms.end()) {
    refused = "form (" + std::string(choice.key.group->name) + ", " + choice.shape +
              "): field 'form': expected one that the group has, found '" + wanted +
              "'; form ignored";
    known_.erase(found);
    return false;
  }
  const auto number = static_cast<size_t>(form - forms.begin());
  changed = choice.form.exchange(number) != number;
  choice.settled.store(true, std::memory_order_release);
  return true;
}

bool FormChoices::Put(FormChoice& choice, size_t form, FormRecord record, std::string why) {
  const std::lock_guard lock(mutex_);
  known_.insert_or_assign(NameOf(choice), Known{std::move(record), std::move(why)});
  const bool changed = choice.form.exchange(form) != form;
  choice.settled.store(true, std::memory_order_release);
  return changed;
}

void FormChoices::SettleUnknown(FormChoice& choice) {
  const std::lock_guard lock(mutex_);
  if (!known_.contains(NameOf(choice))) choice.settled.store(true, std::memory_order_release);
}

void FormChoices::Unsettle() {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<FormChoice>& choice : choices_) {
    if (!known_.contains(NameOf(*choice))) choice->settled.store(false);
  }
}

std::vector<FormRecord> FormChoices::Records() const {
  std::vector<FormRecord> records;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, known] : known_) {
    if (known.record.form_ms > 0.0) records.push_back(known.record);
  }
  return records;
}

std::vector<FormChoices::View> FormChoices::Views() const {
  std::vector<View> views;
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<FormChoice>& choice : choices_) {
    View view;
    const auto found = known_.find(NameOf(*choice));
    if (found != known_.end()) {
      view = {found->second.record, found->second.why, found->second.record.form_ms > 0.0};
    } else {
      view.why = "not measured";
    }
    const std::span<const char* const> forms = choice->key.group->forms;
    view.record.group = choice->key.group->name;
    view.record.shape = choice->shape;
    view.record.form = forms[choice->form.load(std::memory_order_relaxed)];
    view.record.usual_form = forms[choice->usual];
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace tunableop
