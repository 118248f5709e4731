// Saved calls: arguments that somebody wants to use again, kept in this browser alone.

const KEY = "mcphub.saved";
const MOST = 100;

export class SavedCalls {
  constructor() {
    this.onChange = () => {};
    try {
      this.calls = JSON.parse(localStorage.getItem(KEY)) ?? [];
    } catch {
      this.calls = [];
    }
  }

  of(server) {
    return this.calls.filter((one) => one.server === server);
  }

  keep(call) {
    const text = JSON.stringify(call);
    this.calls = [call, ...this.calls.filter((one) => JSON.stringify(one) !== text)].slice(0, MOST);
    this.write();
  }

  drop(call) {
    this.calls = this.calls.filter((one) => one !== call);
    this.write();
  }

  write() {
    try { localStorage.setItem(KEY, JSON.stringify(this.calls)); } catch { /* full: they last until the page closes */ }
    this.onChange();
  }
}
