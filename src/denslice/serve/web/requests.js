// Requests to the server, with the API key if the user gave one.

const at = (id) => document.getElementById(id);

export function useKey(key) {
  sessionStorage.setItem("key", key);
}

// Returns the answer to a request. An error has the server's message; one about the key shows the form for it.
export async function request(path, options = {}) {
  const response = await send(path, options);
  at("key-form").hidden = response.status !== 401;
  if (response.status === 401) at("key").focus();
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error.message);
  return answer;
}

export function send(path, options = {}) {
  const headers = { "Content-Type": "application/json" };
  const key = sessionStorage.getItem("key");
  if (key) headers.Authorization = `Bearer ${key}`;
  return fetch(path, { ...options, headers });
}
