// Cleans the address bar of the one-time code, and closes the window when signing in worked.
history.replaceState(null, "", location.pathname);
document.getElementById("title").focus();
const button = document.getElementById("close");
button.hidden = false;
button.addEventListener("click", () => window.close());
new BroadcastChannel("mcphub-oauth").postMessage({ status: document.body.dataset.status }); // the console reads again
if (document.body.dataset.status === "200") setTimeout(() => window.close(), 1500);
