// A call as a command or a program, with the key left as a variable.

const METHODS = {
  "tools/call": (p) => [`/tools/${encodeURIComponent(p.name)}/call`, { arguments: p.arguments ?? {} }],
  "resources/read": (p) => ["/resources/read", { uri: p.uri }],
  "prompts/get": (p) => ["/prompts/get", { name: p.name, arguments: p.arguments ?? {} }],
};

/** The REST request that repeats a JSON-RPC request, or null when the hub has none for it. */
export function restRequest(server, method, params) {
  const make = METHODS[method];
  if (!make || !params) return null;
  const [path, body] = make(params);
  return { path: `/api/v1/servers/${encodeURIComponent(server)}${path}`, body };
}

const shellQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function asCurl(base, { path, body }) {
  return [
    `curl -s ${shellQuoted(base + path)} \\`,
    '  -H "Authorization: Bearer $MCPHUB_KEY" \\',
    "  -H 'Content-Type: application/json' \\",
    `  -d ${shellQuoted(JSON.stringify(body))}`,
  ].join("\n");
}

export function asPython(base, { path, body }) {
  return [
    "import json",
    "import os",
    "",
    "import httpx",
    "",
    "response = httpx.post(",
    `    ${JSON.stringify(base + path)},`,
    '    headers={"Authorization": f"Bearer {os.environ[\'MCPHUB_KEY\']}"},',
    `    json=json.loads(${JSON.stringify(JSON.stringify(body))}),`,
    "    timeout=70,",
    ")",
    "response.raise_for_status()",
    "print(response.json())",
  ].join("\n");
}

export function asTypeScript(base, { path, body }) {
  const indented = JSON.stringify(body, null, 2).replaceAll("\n", "\n  ");
  return [
    `const response = await fetch(${JSON.stringify(base + path)}, {`,
    '  method: "POST",',
    "  headers: {",
    "    Authorization: `Bearer ${process.env.MCPHUB_KEY}`,",
    '    "Content-Type": "application/json",',
    "  },",
    `  body: JSON.stringify(${indented}),`,
    "});",
    "if (!response.ok) throw new Error((await response.json()).detail);",
    "console.log(await response.json());",
  ].join("\n");
}

export const LANGUAGES = [["curl", asCurl], ["Python", asPython], ["TypeScript", asTypeScript]];
