// Uses a server the way an app on the AI SDK does: node ai_sdk.mjs URL TOKEN; prints what it got.
import { createMCPClient } from '@ai-sdk/mcp';

const [url, token] = process.argv.slice(2);
const client = await createMCPClient({
  transport: { type: 'http', url, headers: { Authorization: `Bearer ${token}` } },
});
try {
  const { tools } = await client.listTools();
  const names = tools.map(tool => tool.name);
  const echo = names.find(name => name.endsWith('echo'));
  const usable = await client.tools();
  const called = await usable[echo].execute({ text: 'hi' }, { toolCallId: '1', messages: [] });
  const { resources } = await client.listResources();
  const read = await client.readResource({ uri: resources[0].uri });
  const { prompts } = await client.listPrompts();
  const prompt = await client.getPrompt({
    name: prompts[0].name,
    arguments: { who: 'Ada' },
  });
  console.log(JSON.stringify({
    tools: names,
    text: called.content[0].text,
    resource: read.contents[0].text,
    prompt: prompt.messages[0].content.text,
  }));
} finally {
  await client.close();
}
