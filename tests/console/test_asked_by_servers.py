"""What the page shows when the API asks for a sign-in or an answer; the test plays the API."""

from __future__ import annotations

import json

from tests.console.browser import Browser, Page
from tests.console.conftest import Visitor, signed_in, thrown
from tests.live.stack import RunningHub

ADDRESS = "https://login.xn--exmple-cua.com/authorize?client_id=1&state=s"
ASKED = [
    {
        "id": "e1",
        "server": "demo",
        "message": "Which <b>branch</b>\u202e?",
        "requestedSchema": {
            "type": "object",
            "properties": {
                "branch": {"type": "string", "minLength": 2},
                "force": {"type": "boolean"},
            },
            "required": ["branch"],
        },
    },
    {"id": "e2", "server": "demo", "message": "Pay there", "url": "https://pay.example/x?y=1"},
]
PLAYED = """
window.posted = [];
window.asked = %(asked)s;
const plain = window.fetch;
window.fetch = async (address, options = {}) => {
  const path = String(address);
  const answer = (body) => new Response(JSON.stringify(body), { status: 200 });
  if (path.includes("/elicitations/")) {
    window.posted.push([path, JSON.parse(options.body)]);
    window.asked = window.asked.filter((one) => !path.endsWith(one.id));
    return answer({});
  }
  if (path.endsWith("/elicitations")) return answer(window.asked);
  const response = await plain(address, options);
  if (!path.endsWith("/servers")) return response;
  const needed = { connectionState: "authRequired", authorizationUrl: %(address)s };
  return answer((await response.json()).map((one) => ({ ...one, ...needed })));
};
"""


def played(hub: RunningHub, browser: Browser, context: str, visitor: Visitor) -> Page:
    script = PLAYED % {"asked": json.dumps(ASKED), "address": json.dumps(ADDRESS)}
    page = browser.page(
        context, lambda one: one.ask("Page.addScriptToEvaluateOnNewDocument", source=script)
    )
    signed_in(page, hub.url, visitor.token)
    return page


def test_a_sign_in_names_its_host_and_warns_of_imitations(
    hub: RunningHub, browser: Browser, context: str, visitor: Visitor
) -> None:
    page = played(hub, browser, context, visitor)
    text = page.see("authorize", "sign in at")
    assert "login.xn--exmple-cua.com" in text
    assert "can imitate a known name" in text
    link = page.js("document.querySelector('[data-testid=authorize] a').outerHTML")
    assert 'rel="noopener noreferrer"' in link


def test_questions_are_answered_after_a_check_and_leave(
    hub: RunningHub, browser: Browser, context: str, visitor: Visitor
) -> None:
    page = played(hub, browser, context, visitor)
    page.until("document.querySelector('[data-testid=tab-requests]').innerText.includes('2')", "2")
    page.click("tab-requests")
    card = page.see("elicitation", "branch")
    assert "<b>branch</b>\\u{202e}?" in card
    page.click("", css="[data-testid=elicitation] .primary")
    page.until("document.activeElement.getAttribute('aria-invalid') === 'true'", "it is checked")
    page.type("main")
    page.click("", css="[data-testid=elicitation] .primary")
    page.until("document.querySelectorAll('[data-testid=elicitation]').length === 1", "one left")
    page.see("elicitation", "pay.example")
    assert page.js("window.posted[0][1]") == {"action": "accept", "content": {"branch": "main"}}
    page.click("", css="[data-testid=elicitation] button:nth-of-type(2)")
    page.until("window.posted.length === 2", "declined")
    assert page.js("window.posted[1][1]") == {"action": "decline"}
    page.see("requests", "No server is waiting")
    assert page.violations == []
    assert thrown(browser) == []
