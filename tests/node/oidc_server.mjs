// An authorization server that nobody here wrote (oidc-provider), whose person always agrees.
// Arguments: port, resource. Prints one line when it listens.
import Provider from "oidc-provider";

const [port, resource] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const SCOPES = "files:read files:write";

const provider = new Provider(issuer, {
  scopes: ["openid", "offline_access", ...SCOPES.split(" ")],
  clients: [{ client_id: "resource-server", client_secret: "of-the-test", redirect_uris: [], response_types: [],
    grant_types: [] }],
  clientAuthMethods: ["none", "client_secret_basic", "client_secret_post"],
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async () => true,
  findAccount: async (_ctx, id) => ({ accountId: id, claims: async () => ({ sub: id, email: "alice@example.org" }) }),
  interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
  features: {
    devInteractions: { enabled: false },
    registration: { enabled: true },
    revocation: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope: SCOPES, audience: resource, accessTokenFormat: "opaque" }),
    },
  },
});

provider.use(async (ctx, next) => {
  if (!ctx.path.startsWith("/interaction/")) return next();
  const { prompt, params, session, grantId } = await provider.interactionDetails(ctx.req, ctx.res);
  const result = {};
  if (prompt.name === "login") result.login = { accountId: "alice" };
  else {
    const grant = (grantId && (await provider.Grant.find(grantId)))
      || new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope((params.scope ?? "").trim());
    grant.addResourceScope(resource, SCOPES);
    result.consent = { grantId: await grant.save() };
  }
  await provider.interactionFinished(ctx.req, ctx.res, result, { mergeWithLastSubmission: false });
  ctx.respond = false;
});

provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
